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

const FRAME: Frame<'_> = Frame {
    command: "serve",
    connect: "'self'",
    fallback: "This page draws itself by JavaScript, from the API. On a terminal, cudasnoop top \
               --connect shows holders, rates and losses; it has no map, and nothing over time.",
};

/// The page's own policy, and what only a header can say: no other page may show it.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let policy = format!("{}; frame-ancestors 'none'", FRAME.policy());
    HeaderValue::try_from(policy).expect("it is of plain letters")
});

const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (
        CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    ),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

static PAGE: LazyLock<String> = LazyLock::new(|| {
    let mut page = Vec::new();
    let written = FRAME
        .open(&mut page)
        .and_then(|()| FRAME.close(&mut page, include_str!("../../../assets/live.js")));
    written.expect("memory takes all");
    String::from_utf8(page).expect("the assets are text")
});

pub(super) fn router() -> Router<App> {
    Router::new().route("/", get(page))
}

async fn page() -> Response {
    let policy = [(CONTENT_SECURITY_POLICY, POLICY.clone())];
    (HEADERS, policy, PAGE.as_str()).into_response()
}
