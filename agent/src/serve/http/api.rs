//! The API: `/api/v1/...`.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Query, State, rejection::QueryRejection},
    http::{
        StatusCode,
        header::{CONTENT_DISPOSITION, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
    routing::{get, put},
};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{json, to_string, to_string_pretty};

use super::App;
use crate::serve::{Figures, status::Tracing, stream as recording};

/// Seconds of a recording.
const DEFAULT_SECONDS: u64 = 30;
const MOST_SECONDS: u64 = 3600;

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/api/v1/memory", get(memory))
        .route("/api/v1/metrics", get(metrics))
        .route("/api/v1/map", get(map))
        .route("/api/v1/record", get(record))
        .route("/api/v1/probes", get(probes))
        .route("/api/v1/probes/off", put(probes_off))
        .route("/api/v1/probes/on", put(probes_on))
}

async fn memory(State(app): State<App>) -> Response {
    document(app, |figures| to_string_pretty(&figures.memory())).await
}

/// The same, piece by piece: thousands of them, for programs, so without spaces.
async fn map(State(app): State<App>) -> Response {
    document(app, |figures| to_string(&figures.map())).await
}

/// The figures of `/metrics`.
async fn metrics(State(app): State<App>) -> Response {
    document(app, |figures| to_string_pretty(&figures.metrics())).await
}

/// The JSON that `write` makes of what is known.
async fn document(app: App, write: fn(&Figures) -> serde_json::Result<String>) -> Response {
    let figures = Figures::of(Arc::clone(&app.live));
    let json = app.answer(move || write(&figures)).await;
    let Ok(Ok(json)) = json else {
        let problem = "the report could not be put into words: this is a bug\n";
        return (StatusCode::INTERNAL_SERVER_ERROR, problem).into_response();
    };
    ([(CONTENT_TYPE, "application/json")], format!("{json}\n")).into_response()
}

/// Whether probes are to be on. They go, and come back, within a moment of a change.
async fn probes(State(app): State<App>) -> Response {
    let probes = json!({"schema": "cudasnoop.probes/1", "on": !app.status.switch.is_off()});
    ([(CONTENT_TYPE, "application/json")], format!("{probes}\n")).into_response()
}

async fn probes_off(State(app): State<App>) -> Response {
    app.status.switch.turn(true);
    probes(State(app)).await
}

async fn probes_on(State(app): State<App>) -> Response {
    app.status.switch.turn(false);
    probes(State(app)).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordOptions {
    #[serde(default = "default_seconds")]
    seconds: u64,
}

const fn default_seconds() -> u64 {
    DEFAULT_SECONDS
}

async fn record(
    State(app): State<App>,
    options: Result<Query<RecordOptions>, QueryRejection>,
) -> Response {
    let seconds = match options {
        Ok(Query(RecordOptions { seconds })) if (1..=MOST_SECONDS).contains(&seconds) => seconds,
        Ok(_) => {
            let problem = format!("seconds: a whole number from 1 to {MOST_SECONDS} is expected\n");
            return (StatusCode::BAD_REQUEST, problem).into_response();
        }
        Err(rejection) => {
            return (StatusCode::BAD_REQUEST, format!("{rejection}\n")).into_response();
        }
    };
    match app.status.now() {
        Tracing::On => {}
        Tracing::Starting => {
            return (StatusCode::SERVICE_UNAVAILABLE, "starting\n").into_response();
        }
        Tracing::Off(_, why) => {
            let problem = format!("nothing is traced: {why}\n");
            return (StatusCode::SERVICE_UNAVAILABLE, problem).into_response();
        }
    }
    let Ok(permit) = Arc::clone(&app.recordings).try_acquire_owned() else {
        let problem = format!(
            "{} recordings are being streamed, which is the most: wait for one to end\n",
            super::RECORDINGS
        );
        return (StatusCode::TOO_MANY_REQUESTS, problem).into_response();
    };
    let pieces = match recording::start(&app.live, Duration::from_secs(seconds), permit) {
        Ok(pieces) => pieces,
        Err(error) => {
            let problem = format!("starting a recording: {error}\n");
            return (StatusCode::INTERNAL_SERVER_ERROR, problem).into_response();
        }
    };
    let body = stream::unfold(pieces, |mut pieces| async move {
        pieces.recv().await.map(|piece| (piece, pieces))
    });
    let headers = [
        (CONTENT_TYPE, "application/vnd.apache.arrow.stream"),
        (
            CONTENT_DISPOSITION,
            "attachment; filename=\"cudasnoop.arrows\"",
        ),
    ];
    (headers, Body::from_stream(body)).into_response()
}
