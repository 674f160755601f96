//! HTTP: metrics and health for everyone, the API and its page for this pod.

mod api;
mod guard;
mod listener;
mod page;
mod public;

use std::{net::SocketAddr, sync::Arc};

use axum::Router;
use tokio::{sync::Semaphore, task::JoinError};

pub(super) use listener::Limited;

use super::{live::Live, status::Status};

/// Recordings that may be streamed at a time.
const RECORDINGS: usize = 4;

/// What requests are answered from.
#[derive(Clone, Debug)]
pub(super) struct App {
    live: Arc<Live>,
    status: Arc<Status>,
    /// One scrape at a time: each holds the drain up for a moment.
    scrapes: Arc<Semaphore>,
    recordings: Arc<Semaphore>,
}

impl App {
    pub(super) fn new(live: Arc<Live>, status: Arc<Status>) -> Self {
        Self {
            live,
            status,
            scrapes: Arc::new(Semaphore::new(1)),
            recordings: Arc::new(Semaphore::new(RECORDINGS)),
        }
    }

    /// What `make` finds out. It is made to its end even where its client leaves, and the next
    /// one waits for that.
    async fn answer<T: Send + 'static>(
        &self,
        make: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        // It is never closed.
        let turn = Arc::clone(&self.scrapes).acquire_owned().await;
        let make = move || {
            let _turn = turn;
            make()
        };
        tokio::task::spawn_blocking(make).await
    }

    /// What `--listen` serves.
    pub(super) fn public(&self) -> Router {
        public::router().with_state(self.clone())
    }

    /// What `--admin` serves.
    pub(super) fn admin(&self) -> Router {
        api::router()
            .merge(page::router())
            .merge(public::router())
            .layer(axum::middleware::from_fn(guard::check))
            .with_state(self.clone())
    }

    /// Waits until no recording is streamed any more.
    pub(super) async fn recordings_ended(&self) {
        let all = u32::try_from(RECORDINGS).unwrap_or(u32::MAX);
        // It is never closed.
        let _ = self.recordings.acquire_many(all).await;
    }
}

/// Warns of an API that others can reach.
pub(super) fn warn_if_open(admin: SocketAddr) {
    if !admin.ip().is_loopback() {
        tracing::warn!(
            "the API is on {admin}: whoever reaches that can see what processes allocate and call, \
             without a password"
        );
    }
}
