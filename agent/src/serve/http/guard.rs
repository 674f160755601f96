//! Who may use the API: not a web page that some browser in reach has open.
//!
//! A page can make a browser send requests to 127.0.0.1, and with a name of its own that it lets
//! point there (DNS rebinding) even read the answers. Such a request names that host, which is
//! neither an address nor `localhost`; and a browser says when it comes from another site.

use std::net::{IpAddr, Ipv6Addr};

use axum::{
    extract::Request,
    http::{HeaderMap, StatusCode, header::HOST},
    middleware::Next,
    response::{IntoResponse, Response},
};

/// Refuses requests that a web page may have caused.
pub(super) async fn check(request: Request, next: Next) -> Response {
    match refusal(request.headers()) {
        None => next.run(request).await,
        Some(problem) => (StatusCode::FORBIDDEN, problem).into_response(),
    }
}

fn refusal(headers: &HeaderMap) -> Option<&'static str> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST.as_str());
    if !host.is_some_and(is_address_or_localhost) {
        return Some("the API answers under an address, or localhost, not under other names\n");
    }
    match text("sec-fetch-site") {
        None | Some("same-origin" | "none") => None,
        Some(_) => Some("the API does not answer to other web sites\n"),
    }
}

/// `127.0.0.1:9411`, `[::1]`, `localhost`.
fn is_address_or_localhost(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let address = rest.split(']').next().unwrap_or_default();
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let name = host.split(':').next().unwrap_or_default();
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn is_refused(pairs: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        refusal(&headers).is_some()
    }

    #[test]
    fn names_other_than_localhost_are_refused() {
        for host in [
            "127.0.0.1:9411",
            "localhost",
            "LOCALHOST:9411",
            "[::1]:9411",
            "10.0.0.7",
        ] {
            assert!(!is_refused(&[("host", host)]), "{host}");
        }
        for host in [
            "evil.example:9411",
            "localhost.evil.example",
            "",
            "[evil]",
            "127.0.0.1.x",
        ] {
            assert!(is_refused(&[("host", host)]), "{host}");
        }
        assert!(is_refused(&[]));
    }

    #[test]
    fn other_sites_are_refused() {
        let host = ("host", "127.0.0.1:9411");
        assert!(is_refused(&[host, ("sec-fetch-site", "cross-site")]));
        assert!(is_refused(&[host, ("sec-fetch-site", "same-site")]));
        assert!(!is_refused(&[host, ("sec-fetch-site", "none")]));
    }
}
