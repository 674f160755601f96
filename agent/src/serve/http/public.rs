//! `/metrics`, `/healthz`, `/readyz`.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{
        HeaderMap, StatusCode,
        header::{ACCEPT, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
    routing::get,
};

use super::App;
use crate::serve::{metrics::Format, status::Tracing};

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
}

async fn metrics(State(app): State<App>, headers: HeaderMap) -> Response {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    let live = Arc::clone(&app.live);
    let text = app.answer(move || format.encode(live.samples())).await;
    let Ok(Ok(text)) = text else {
        let problem = "the metrics could not be put into words: this is a bug\n";
        return (StatusCode::INTERNAL_SERVER_ERROR, problem).into_response();
    };
    ([(CONTENT_TYPE, format.content_type())], text).into_response()
}

async fn healthz() -> &'static str {
    "ok\n"
}

async fn readyz(State(app): State<App>) -> (StatusCode, String) {
    match app.status.now() {
        Tracing::On => (StatusCode::OK, "ok\n".to_owned()),
        Tracing::Starting => (StatusCode::SERVICE_UNAVAILABLE, "starting\n".to_owned()),
        Tracing::Off(_, why) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("nothing is traced: {why}\n"),
        ),
    }
}
