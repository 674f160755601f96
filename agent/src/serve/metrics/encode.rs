//! Samples as text.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet, prometheus_text, text},
    metrics::MetricType,
    registry::{self, Registry},
};

use super::{Distribution, Metric, Samples, catalogue::Type, samples::Value};

/// The formats that Prometheus reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Format {
    /// `OpenMetrics` 1.0.
    OpenMetrics,
    /// Prometheus' own text format, 0.0.4.
    Prometheus,
}

impl Format {
    /// What a client that sends this `Accept` header wants most; Prometheus' own where it does not
    /// say.
    pub(in crate::serve) fn accepted(accept: &str) -> Self {
        let weight = |wanted: &str| {
            accept
                .split(',')
                .filter(|range| range.split(';').next().map(str::trim) == Some(wanted))
                .map(|range| {
                    range
                        .split(';')
                        .find_map(|part| part.trim().strip_prefix("q=")?.parse::<f32>().ok())
                        .unwrap_or(1.0)
                })
                .fold(0.0, f32::max)
        };
        if weight("application/openmetrics-text") > weight("text/plain") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// The `Content-Type`.
    pub(in crate::serve) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
        }
    }

    /// All samples as text.
    pub(in crate::serve) fn encode(self, samples: Samples) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Exposition(samples)));
        let mut output = String::new();
        match self {
            Self::OpenMetrics => text::encode(&mut output, &registry)?,
            Self::Prometheus => prometheus_text::encode(&mut output, &registry)?,
        }
        Ok(output)
    }
}

/// Samples, as prometheus-client takes them.
#[derive(Debug)]
struct Exposition(Samples);

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for &metric in Metric::ALL {
            let mut samples = self.0.of(metric).peekable();
            if samples.peek().is_none() {
                continue;
            }
            let kind = match metric.kind() {
                Type::Counter => MetricType::Counter,
                Type::Gauge => MetricType::Gauge,
                Type::Histogram => MetricType::Histogram,
                Type::Info => MetricType::Info,
            };
            let unit = metric.unit().name();
            let unit = unit.map(|name| registry::Unit::Other(name.to_owned()));
            let help = metric.help().trim();
            let mut family = encoder.encode_descriptor(metric.name(), help, unit.as_ref(), kind)?;
            for (values, value) in samples {
                let names = metric.labels().iter().copied();
                let labels: Vec<(&str, &str)> =
                    names.zip(values.iter().map(|value| &**value)).collect();
                if metric.kind() == Type::Info {
                    family.encode_info(&labels)?;
                    continue;
                }
                let mut series = family.encode_family(&labels)?;
                let is_counter = metric.kind() == Type::Counter;
                match value {
                    Value::Count(count) if is_counter => {
                        series.encode_counter::<NoLabelSet, u64, f64>(count, None)?;
                    }
                    Value::Number(number) if is_counter => {
                        series.encode_counter::<NoLabelSet, f64, f64>(number, None)?;
                    }
                    Value::Count(count) => series.encode_gauge(count)?,
                    Value::Number(number) => series.encode_gauge(number)?,
                    Value::Distribution(Distribution {
                        sum,
                        count,
                        buckets,
                    }) => {
                        series.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_chooses_the_format() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.5,*/*;q=0.1";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        assert_eq!(Format::accepted("text/plain"), Format::Prometheus);
        assert_eq!(Format::accepted("*/*"), Format::Prometheus);
        assert_eq!(Format::accepted(""), Format::Prometheus);
        let refused = "application/openmetrics-text;q=0,text/plain;q=0.1";
        assert_eq!(Format::accepted(refused), Format::Prometheus);
    }
}
