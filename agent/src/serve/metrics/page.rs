//! Samples as a document: the JSON of `/api/v1/metrics`, and what `cudasnoop top` reads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Distribution, Metric, Samples, samples::Value};

/// Name and version of the JSON: docs/serve.md describes it.
pub(crate) const SCHEMA: &str = "cudasnoop.metrics/1";

/// All metrics at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Page {
    /// [`SCHEMA`].
    pub(crate) schema: String,
    /// The moment, ns of `CLOCK_MONOTONIC`.
    pub(crate) at_ns: u64,
    /// Those that have a series.
    pub(crate) metrics: Vec<Family>,
}

/// A metric.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Family {
    /// As on `/metrics`; a histogram's without `_bucket`, `_sum`, `_count`.
    pub(crate) name: String,
    /// `counter`, `gauge`, `histogram`, `info`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// `bytes`, `seconds`, `ratio`; null: things.
    pub(crate) unit: Option<String>,
    /// What it tells.
    pub(crate) help: String,
    /// Its series.
    pub(crate) series: Vec<Series>,
}

/// A series.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Series {
    /// Values by the names of labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Its value.
    #[serde(flatten)]
    pub(crate) reading: Reading,
}

/// The value of a series.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Reading {
    /// A whole number.
    Count {
        /// It.
        value: u64,
    },
    /// Any number.
    Number {
        /// It.
        value: f64,
    },
    /// A histogram.
    Histogram {
        /// The sum of all values.
        sum: f64,
        /// How many there were.
        count: u64,
        /// How many by size.
        buckets: Vec<Bucket>,
    },
}

/// A bucket of a histogram.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Bucket {
    /// The bound; null: none.
    pub(crate) le: Option<f64>,
    /// Values up to the bound, those of the buckets before included.
    pub(crate) count: u64,
}

impl Page {
    /// What `samples` of the moment `at_ns` say.
    pub(in crate::serve) fn new(samples: &Samples, at_ns: u64) -> Self {
        let families = Metric::ALL.iter().map(|&metric| Family {
            name: metric.full_name(),
            kind: metric.kind().name().to_owned(),
            unit: metric.unit().name().map(str::to_owned),
            help: metric.help().trim().to_owned(),
            series: samples
                .of(metric)
                .map(|(values, value)| Series {
                    labels: metric
                        .labels()
                        .iter()
                        .zip(values)
                        .map(|(label, value)| ((*label).to_owned(), value.to_string()))
                        .collect(),
                    reading: Reading::new(value),
                })
                .collect(),
        });
        Self {
            schema: SCHEMA.to_owned(),
            at_ns,
            metrics: families
                .filter(|family| !family.series.is_empty())
                .collect(),
        }
    }
}

impl Reading {
    fn new(value: &Value) -> Self {
        match value {
            Value::Count(value) => Self::Count { value: *value },
            Value::Number(value) => Self::Number { value: *value },
            Value::Distribution(Distribution {
                sum,
                count,
                buckets,
            }) => {
                let mut below = 0;
                let buckets = buckets.iter().map(|(bound, count)| {
                    below += count;
                    Bucket {
                        le: bound.is_finite().then_some(*bound),
                        count: below,
                    }
                });
                Self::Histogram {
                    sum: *sum,
                    count: *count,
                    buckets: buckets.collect(),
                }
            }
        }
    }
}
