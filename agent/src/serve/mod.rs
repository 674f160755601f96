//! The sidecar: a session that goes on for ever, with metrics, health and an API over HTTP.
//!
//! The session runs in threads of its own, as everywhere; its drain feeds [`live`]. HTTP and
//! signals are on a small runtime in the main thread, and answer whatever the drain is busy with.
//! `supervise` tries again where tracing cannot work.

mod figures;
mod http;
mod live;
mod metrics;
#[cfg(feature = "otlp")]
mod otlp;
mod status;
mod stream;
mod supervise;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use agent_common::Family;
use axum::serve::Listener as _;
use thiserror::Error;
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
    sync::{oneshot, watch},
    time::timeout,
};

use crate::{
    session::{Options, Outcome, SessionError, Target},
    sink::RollingOptions,
};
pub(crate) use figures::Figures;
use http::{App, Limited};
use live::Live;
#[cfg(feature = "tui")]
pub(crate) use metrics::{Metric, Page, Reading, SCHEMA as METRICS_SCHEMA, Series};
use status::Status;
use supervise::{Ending, Supervisor};

/// How to serve.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where metrics and health are.
    pub listen: SocketAddr,
    /// Where the API is, and they too.
    pub admin: SocketAddr,
    /// End with an error where tracing cannot work, in place of trying again.
    pub strict: bool,
    /// Families of calls that are printed on stdout.
    pub log_events: Vec<Family>,
    /// A recording beside the metrics, within a disk budget.
    pub rolling: Option<RollingOptions>,
    /// The session.
    pub session: Options,
}

/// Why serving ended.
#[derive(Debug, Error)]
pub enum ServeError {
    /// An address could not be listened on.
    #[error("listening on {address} (--{flag}): {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The flag that names it.
        flag: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A thread, or the runtime, could not be started.
    #[error("starting to serve: {0}")]
    Start(#[source] io::Error),
    /// Requests could not be answered any more.
    #[error("answering requests: {0}")]
    Http(#[source] io::Error),
    /// Tracing failed, for good.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The session's thread died.
    #[error("the thread of the session panicked: this is a bug, please report it")]
    Panicked,
}

/// From the request to end, for the session to end, at most; a command that we started may take
/// longer.
const FAREWELL: Duration = Duration::from_millis(1200);
/// Then, for recordings, and for other answers that are under way: all in all below 2 s.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

/// Serves until told to end (SIGTERM, SIGINT), or until what is traced has ended. The session's
/// outcome, if it got to its end.
pub fn run(settings: Settings) -> Result<Option<Outcome>, ServeError> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(ServeError::Start)?;
    let result = runtime.block_on(serve(settings));
    runtime.shutdown_background();
    result
}

async fn serve(settings: Settings) -> Result<Option<Outcome>, ServeError> {
    let Settings {
        listen,
        admin,
        strict,
        log_events,
        rolling,
        session: options,
    } = settings;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Start)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Start)?;
    let (public, listen) = bind(listen, "listen").await?;
    let (private, admin) = bind(admin, "admin").await?;
    http::warn_if_open(admin);

    let status = Arc::new(Status::new(Arc::clone(&options.switch)));
    let live = Arc::new(Live::new(
        Arc::clone(&status),
        Arc::clone(&options.status),
        options.max_overhead.is_some(),
    ));
    let app = App::new(Arc::clone(&live), Arc::clone(&status));
    #[cfg(feature = "otlp")]
    let push = otlp::Push::start(&live);
    let ending = Arc::<Ending>::default();
    let is_command = matches!(options.target, Target::Command(_));
    let supervisor = Supervisor {
        options,
        strict,
        log_events,
        rolling,
        live,
        status,
        ending: Arc::clone(&ending),
    };
    let (tell, told) = mpsc::channel();
    let (done, mut outcome) = oneshot::channel();
    thread::Builder::new()
        .name("session".to_owned())
        .spawn(move || {
            let _ = done.send(supervisor.run(&told));
        })
        .map_err(ServeError::Start)?;

    let (close, closed) = watch::channel(false);
    let mut servers = tokio::spawn(answer(app.clone(), public, private, closed));
    tracing::info!(
        "metrics on http://{listen}/metrics, the API on http://{admin}/api/v1/, a page for browsers \
         on http://{admin}/"
    );

    let session = tokio::select! {
        ended = &mut outcome => Some(ended),
        result = &mut servers => {
            return Err(ServeError::Http(match result {
                Ok(Err(error)) => error,
                Ok(Ok(())) | Err(_) => io::Error::other("the servers have ended"),
            }));
        }
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
    };
    let session = if session.is_some() {
        session
    } else {
        drop(tell);
        if is_command {
            // The session has got the signal too: it asks the command to end, and waits.
            Some(outcome.await)
        } else {
            ending.request();
            timeout(FAREWELL, outcome).await.ok()
        }
    };
    #[cfg(feature = "otlp")]
    if let Some(push) = push {
        let _ = timeout(LAST_ANSWERS, push.finish()).await;
    }
    let _ = timeout(LAST_ANSWERS, app.recordings_ended()).await;
    let _ = close.send(true);
    let _ = timeout(LAST_ANSWERS, servers).await;
    match session {
        Some(Ok(outcome)) => Ok(outcome?),
        Some(Err(_)) => Err(ServeError::Panicked),
        None => {
            tracing::warn!("not all probes could be taken off in time; the kernel does that now");
            Ok(None)
        }
    }
}

/// Listens; with port 0, the address tells which it became.
async fn bind(
    address: SocketAddr,
    flag: &'static str,
) -> Result<(Limited, SocketAddr), ServeError> {
    let refused = |source| ServeError::Listen {
        address,
        flag,
        source,
    };
    let listener = Limited::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// Answers requests until `closed`.
async fn answer(
    app: App,
    public: Limited,
    private: Limited,
    closed: watch::Receiver<bool>,
) -> io::Result<()> {
    let wait = |mut closed: watch::Receiver<bool>| async move {
        // The sender goes only when all is over.
        let _ = closed.wait_for(|is_closed| *is_closed).await;
    };
    let public = axum::serve(public, app.public()).with_graceful_shutdown(wait(closed.clone()));
    let private = axum::serve(private, app.admin()).with_graceful_shutdown(wait(closed));
    let (public, private) = tokio::join!(public.into_future(), private.into_future());
    public.and(private)
}
