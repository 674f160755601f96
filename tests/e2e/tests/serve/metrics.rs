//! Metrics as Prometheus' own parsers read them.

use std::fs;

use serde_json::Value;

/// The formats.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    /// `OpenMetrics`.
    OpenMetrics,
    /// Prometheus' own text.
    Prometheus,
}

impl Format {
    /// What asks for it.
    pub(crate) const fn accept(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text;version=1.0.0",
            Self::Prometheus => "text/plain",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::OpenMetrics => "openmetrics",
            Self::Prometheus => "prometheus",
        }
    }
}

/// All series of a scrape.
#[derive(Debug)]
pub(crate) struct Series(Vec<Value>);

impl Series {
    /// What the parser of that format makes of `text`.
    pub(crate) fn parse(format: Format, text: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("metrics");
        fs::write(&file, text).expect("written");
        let arguments = [format.name().as_ref(), file.as_os_str()];
        let output = e2e::python("tests/prometheus/parse.py", arguments);
        Self(serde_json::from_slice(&output.stdout).expect("JSON"))
    }

    /// The sum of the series with this name and these labels.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.of(name, labels)
            .map(|series| series["value"].as_f64().expect("a number"))
            .sum()
    }

    /// How many there are of them.
    pub(crate) fn count(&self, name: &str, labels: &[(&str, &str)]) -> usize {
        self.of(name, labels).count()
    }

    fn of(&self, name: &str, labels: &[(&str, &str)]) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |series| {
            series["name"] == name
                && labels
                    .iter()
                    .all(|(label, value)| series["labels"][*label] == *value)
        })
    }

    /// The only series with this name.
    pub(crate) fn only(&self, name: &str) -> &Value {
        let mut found = self.0.iter().filter(|series| series["name"] == name);
        let first = found.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(found.next().is_none(), "{name} more than once");
        first
    }
}
