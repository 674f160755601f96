//! Where to push, how often and how: OpenTelemetry's own environment variables.

use std::time::Duration;

use thiserror::Error;
use ureq::http::{HeaderName, HeaderValue, Uri};

use super::pairs;

const INTERVAL: Duration = Duration::from_mins(1);
const TIMEOUT: Duration = Duration::from_secs(10);

/// How to push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// The URL, path included.
    pub(super) endpoint: String,
    /// Headers of each request.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// A push takes at most so long.
    pub(super) timeout: Duration,
    /// From one push to the next.
    pub(super) interval: Duration,
}

/// What the environment wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// `None`: nothing is to be pushed.
    pub(super) settings: Option<Settings>,
    /// What of it is not done.
    pub(super) warnings: Vec<Problem>,
}

/// What is wrong with a variable, or with a push.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum Problem {
    /// A value that means nothing.
    #[error("{name}: {problem}")]
    Variable {
        /// The variable.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// The collector could not be reached, or did not answer in time.
    #[error("{0}")]
    Failed(String),
    /// It refused.
    #[error("the collector answered {0}")]
    Refused(u16),
    /// It took a part.
    #[error("the collector left out {points} data points: {why}")]
    Rejected {
        /// How many.
        points: i64,
        /// What it says.
        why: String,
    },
}

impl Settings {
    /// What the variables say; those for metrics alone go before those for all signals.
    pub(super) fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Wanted, Problem> {
        let mut warnings = Vec::new();
        let nothing = Ok(Wanted {
            settings: None,
            warnings: Vec::new(),
        });
        let is_disabled =
            variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let exporter = variable("OTEL_METRICS_EXPORTER");
        let is_wanted = |names: &str| names.split(',').any(|name| name.trim() == "otlp");
        if is_disabled || exporter.is_some_and(|names| !is_wanted(&names)) {
            return nothing;
        }
        let variable = Variables(variable);
        let endpoint = match variable.of_metrics("ENDPOINT") {
            Some((name, url)) => url_at(name, &url)?,
            None => match variable.of_all("ENDPOINT") {
                Some((name, url)) => {
                    url_at(name, &format!("{}/v1/metrics", url.trim_end_matches('/')))?
                }
                None => return nothing,
            },
        };
        if let Some((name, protocol)) = variable.either("PROTOCOL")
            && protocol != "http/protobuf"
        {
            let problem = format!("`{protocol}`: only http/protobuf is spoken here");
            return Err(Problem::Variable { name, problem });
        }
        let mut not_done = |name: String, what: &str| {
            let problem = what.to_owned();
            warnings.push(Problem::Variable { name, problem });
        };
        if let Some((name, how)) = variable.either("COMPRESSION")
            && how != "none"
        {
            not_done(name, "nothing is compressed");
        }
        if let Some((name, which)) = variable.of_metrics("TEMPORALITY_PREFERENCE")
            && !which.eq_ignore_ascii_case("cumulative")
        {
            not_done(name, "all sums are cumulative");
        }
        let headers = match variable.either("HEADERS") {
            Some((name, text)) => headers(name, &text)?,
            None => Vec::new(),
        };
        let timeout = milliseconds(variable.either("TIMEOUT"), TIMEOUT)?;
        let named = |name: &str| Some((name.to_owned(), variable.0(name)?));
        let interval = milliseconds(named("OTEL_METRIC_EXPORT_INTERVAL"), INTERVAL)?;
        let longest = milliseconds(named("OTEL_METRIC_EXPORT_TIMEOUT"), timeout)?;
        Ok(Wanted {
            settings: Some(Self {
                endpoint,
                headers,
                timeout: timeout.min(longest),
                interval,
            }),
            warnings,
        })
    }
}

/// Variables of the exporter, each with its full name.
struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Variables<'_> {
    fn of_metrics(&self, what: &str) -> Option<(String, String)> {
        let name = format!("OTEL_EXPORTER_OTLP_METRICS_{what}");
        let value = self.0(&name)?;
        Some((name, value))
    }

    fn of_all(&self, what: &str) -> Option<(String, String)> {
        let name = format!("OTEL_EXPORTER_OTLP_{what}");
        let value = self.0(&name)?;
        Some((name, value))
    }

    fn either(&self, what: &str) -> Option<(String, String)> {
        self.of_metrics(what).or_else(|| self.of_all(what))
    }
}

fn url_at(name: String, url: &str) -> Result<String, Problem> {
    let problem = match url.parse::<Uri>() {
        Ok(uri) if uri.scheme_str() == Some("http") && uri.host().is_some() => {
            return Ok(url.to_owned());
        }
        Ok(uri) if uri.scheme_str() == Some("https") => {
            "https is not spoken here: name a collector in the pod or on the node, over http"
                .to_owned()
        }
        Ok(_) => format!("`{url}`: a URL is expected, as in http://127.0.0.1:4318"),
        Err(error) => format!("`{url}`: {error}"),
    };
    Err(Problem::Variable { name, problem })
}

fn headers(name: String, text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, Problem> {
    // Their values may be secrets: no error shows one.
    let Ok(pairs) = pairs::parse(text) else {
        let problem = "key=value,key=value is expected".to_owned();
        return Err(Problem::Variable { name, problem });
    };
    let header = |(key, value): &(String, String)| {
        let mut value: HeaderValue = value.parse().ok()?;
        value.set_sensitive(true);
        Some((key.parse().ok()?, value))
    };
    let headers = pairs.iter().map(|pair| {
        header(pair).ok_or_else(|| Problem::Variable {
            name: name.clone(),
            problem: format!("`{}` with its value is no HTTP header", pair.0),
        })
    });
    headers.collect()
}

fn milliseconds(
    variable: Option<(String, String)>,
    otherwise: Duration,
) -> Result<Duration, Problem> {
    let Some((name, text)) = variable else {
        return Ok(otherwise);
    };
    match text.trim().parse::<u64>() {
        Ok(milliseconds) if milliseconds > 0 => Ok(Duration::from_millis(milliseconds)),
        Ok(_) | Err(_) => Err(Problem::Variable {
            name,
            problem: format!("`{text}`: a number of milliseconds is expected"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Wanted, Problem> {
        Settings::read(&|name| {
            let found = variables.iter().find(|(of, _)| *of == name)?;
            Some(found.1.to_owned())
        })
    }

    fn settings(variables: &[(&str, &str)]) -> Option<Settings> {
        read(variables).expect("fine").settings
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");

    #[test]
    fn without_a_collector_nothing_is_pushed() {
        assert_eq!(settings(&[]), None);
        assert_eq!(settings(&[ENDPOINT, ("OTEL_SDK_DISABLED", "true")]), None);
        assert_eq!(
            settings(&[ENDPOINT, ("OTEL_METRICS_EXPORTER", "none")]),
            None
        );
        assert!(settings(&[ENDPOINT, ("OTEL_METRICS_EXPORTER", "otlp")]).is_some());
    }

    #[test]
    fn variables_for_metrics_go_first() {
        let general = settings(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_TIMEOUT", "2000")]).expect("one");
        assert_eq!(general.endpoint, "http://collector:4318/v1/metrics");
        assert_eq!(general.timeout, Duration::from_secs(2));
        assert_eq!(general.interval, INTERVAL);
        let special = settings(&[
            ENDPOINT,
            (
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
                "http://metrics:1/as/it/is",
            ),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2000"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "3000"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x=1"),
            (
                "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
                "authorization=Bearer%20secret",
            ),
            ("OTEL_METRIC_EXPORT_INTERVAL", "500"),
        ])
        .expect("one");
        assert_eq!(special.endpoint, "http://metrics:1/as/it/is");
        assert_eq!(special.timeout, Duration::from_secs(3));
        assert_eq!(special.interval, Duration::from_millis(500));
        let [(name, value)] = special.headers.as_slice() else {
            panic!("{:?}", special.headers);
        };
        assert_eq!(
            (name.as_str(), value.as_bytes()),
            ("authorization", &b"Bearer secret"[..])
        );
    }

    #[test]
    fn what_cannot_be_done_is_named_and_secrets_are_not() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector:4318"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "no name=secret"),
        ] {
            let problem = read(&[(name, value), ENDPOINT])
                .expect_err(value)
                .to_string();
            assert!(problem.starts_with(name), "{problem}");
            assert!(!problem.contains("secret"), "{problem}");
        }
        let wanted = read(&[
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta"),
        ]);
        let wanted = wanted.expect("fine");
        assert!(wanted.settings.is_some());
        assert_eq!(wanted.warnings.len(), 2);
    }
}
