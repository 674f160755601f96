//! Metrics pushed to an OpenTelemetry collector: the figures of `/metrics`, by OTLP over HTTP.
//!
//! A thread of its own makes and sends them, so that a collector that is slow or down holds nobody
//! up. Each push has all totals since the start: one that fails is not sent again, the next one
//! has what it had. (The SDK of OpenTelemetry takes no histograms that were made elsewhere, so the
//! messages are filled in here.)

mod pairs;
mod request;
mod resource;
mod settings;
#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, SystemTime},
};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message as _;
use tokio::sync::oneshot;
use ureq::{Agent, http::header::CONTENT_TYPE};

use super::{
    live::Live,
    metrics::{Metric, Samples},
};
use resource::Identity;
use settings::{Problem, Settings, Wanted};

/// The last push, at the end, takes at most so long.
const FAREWELL: Duration = Duration::from_millis(250);
/// An answer is at most so large: it says little.
const LARGEST_ANSWER_BYTES: u64 = 64 << 10;
/// Failures in a row after which they are told again.
const TELL_EVERY: u64 = 60;

/// How pushes went.
#[derive(Debug, Default)]
pub(super) struct Pushes {
    is_on: std::sync::atomic::AtomicBool,
    succeeded: AtomicU64,
    /// Taken, but not all of it.
    partial: AtomicU64,
    failed: AtomicU64,
}

impl Pushes {
    /// Adds how many there were, where there are any.
    pub(super) fn collect(&self, samples: &mut Samples) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let Self {
            is_on: _,
            succeeded,
            partial,
            failed,
        } = self;
        for (result, count) in [
            ("success", succeeded),
            ("partial", partial),
            ("failure", failed),
        ] {
            let count = count.load(Ordering::Relaxed);
            samples.count(Metric::OtlpPushes, vec![result.into()], count);
        }
    }
}

/// Pushes until it is told to end.
#[derive(Debug)]
pub(super) struct Push {
    tell: Sender<()>,
    ended: oneshot::Receiver<()>,
}

impl Push {
    /// Starts, if the environment names a collector. What it says wrongly is told, and nothing is
    /// pushed then: tracing does not hang on it.
    pub(super) fn start(live: &Arc<Live>) -> Option<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        match Settings::read(&variable) {
            Ok(Wanted { settings, warnings }) => {
                for warning in warnings {
                    tracing::warn!("{warning}");
                }
                Self::with(
                    settings?,
                    Identity::of_environment(&variable),
                    Arc::clone(live),
                )
            }
            Err(problem) => {
                tracing::warn!("no metrics are pushed: {problem}");
                None
            }
        }
    }

    fn with(settings: Settings, identity: Identity, live: Arc<Live>) -> Option<Self> {
        tracing::info!(
            "metrics are pushed to {} every {:?}",
            settings.endpoint,
            settings.interval
        );
        live.pushes.is_on.store(true, Ordering::Relaxed);
        let (tell, told) = channel();
        let (end, ended) = oneshot::channel();
        let pusher = Pusher {
            agent: agent(),
            settings,
            identity,
            live,
            failures: 0,
        };
        let spawned = thread::Builder::new()
            .name("otlp".to_owned())
            .spawn(move || {
                pusher.run(&told);
                let _ = end.send(());
            });
        match spawned {
            Ok(_) => Some(Self { tell, ended }),
            Err(error) => {
                tracing::warn!("no metrics are pushed: starting a thread: {error}");
                None
            }
        }
    }

    /// Pushes once more, and ends.
    pub(super) async fn finish(self) {
        drop(self.tell);
        let _ = self.ended.await;
    }
}

fn agent() -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .user_agent(concat!("cudasnoop/", env!("CARGO_PKG_VERSION")))
        .build();
    config.into()
}

struct Pusher {
    agent: Agent,
    settings: Settings,
    identity: Identity,
    live: Arc<Live>,
    /// In a row, until now.
    failures: u64,
}

impl Pusher {
    fn run(mut self, told: &Receiver<()>) {
        loop {
            match told.recv_timeout(self.settings.interval) {
                Err(RecvTimeoutError::Timeout) => self.push(self.settings.timeout),
                Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                    return self.push(self.settings.timeout.min(FAREWELL));
                }
            }
        }
    }

    fn push(&mut self, timeout: Duration) {
        let request = request::of(
            &self.live.samples(),
            &self.identity,
            self.live.started(),
            SystemTime::now(),
        );
        let pushes = &self.live.pushes;
        match self.send(&request.encode_to_vec(), timeout) {
            Ok(None) => {
                pushes.succeeded.fetch_add(1, Ordering::Relaxed);
                if self.failures > 0 {
                    tracing::info!("metrics are pushed again");
                }
                self.failures = 0;
            }
            Ok(Some(rejected)) => {
                pushes.partial.fetch_add(1, Ordering::Relaxed);
                self.tell(&rejected);
            }
            Err(problem) => {
                pushes.failed.fetch_add(1, Ordering::Relaxed);
                self.tell(&problem);
            }
        }
    }

    fn tell(&mut self, problem: &Problem) {
        if self.failures.is_multiple_of(TELL_EVERY) {
            let endpoint = &self.settings.endpoint;
            tracing::warn!("pushing metrics to {endpoint}: {problem}; tracing goes on");
        }
        self.failures += 1;
    }

    /// What the collector left out, if it did.
    fn send(&self, body: &[u8], timeout: Duration) -> Result<Option<Problem>, Problem> {
        let failed = |error: ureq::Error| Problem::Failed(error.to_string());
        let mut post = self
            .agent
            .post(&self.settings.endpoint)
            .config()
            .timeout_global(Some(timeout))
            .build()
            .header(CONTENT_TYPE, "application/x-protobuf");
        for (name, value) in &self.settings.headers {
            post = post.header(name, value);
        }
        let mut answer = post.send(body).map_err(failed)?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(LARGEST_ANSWER_BYTES);
        if !status.is_success() {
            return Err(Problem::Refused(status.as_u16()));
        }
        let answer = body.read_to_vec().map_err(failed)?;
        // Some answer nothing, or text; that they took it, they have said.
        let answer = ExportMetricsServiceResponse::decode(answer.as_slice()).unwrap_or_default();
        Ok(answer
            .partial_success
            .filter(|partial| partial.rejected_data_points > 0)
            .map(|partial| Problem::Rejected {
                points: partial.rejected_data_points,
                why: partial.error_message,
            }))
    }
}
