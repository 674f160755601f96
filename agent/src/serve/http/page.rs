//! `/` of the admin address: a page for people, which asks the API for its figures.

use std::sync::LazyLock;

use analyzer::html::Frame;
use axum::{
    Router,
    http::{
        HeaderName, HeaderValue,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
            X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
        },
    },
    response::{IntoResponse, Response},
    routing::get,
};

use super::App;

/// As the page's own policy, and what only a header can say: no other page may show it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    ),
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

static PAGE: LazyLock<String> = LazyLock::new(|| {
    let frame = Frame {
        command: "serve",
        connect: "'self'",
        fallback: "This page draws itself by JavaScript, from the API. On a terminal, cudasnoop top \
                   shows the same.",
    };
    let mut page = Vec::new();
    let written = frame
        .open(&mut page)
        .and_then(|()| frame.close(&mut page, include_str!("../../../assets/live.js")));
    written.expect("memory takes all");
    String::from_utf8(page).expect("the assets are text")
});

pub(super) fn router() -> Router<App> {
    Router::new().route("/", get(page))
}

async fn page() -> Response {
    (HEADERS, PAGE.as_str()).into_response()
}
