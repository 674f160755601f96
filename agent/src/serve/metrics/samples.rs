//! The values of all series at one moment.

use std::{fmt, ops::Deref, sync::Arc};

use super::Metric;

/// A label's value: cheap to copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::serve) struct Text(Inner);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Inner {
    Fixed(&'static str),
    Shared(Arc<str>),
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Inner::Fixed(text) => text,
            Inner::Shared(text) => text,
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Self(Inner::Fixed(text))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(Inner::Shared(text.into()))
    }
}

impl From<&Arc<str>> for Text {
    fn from(text: &Arc<str>) -> Self {
        Self(Inner::Shared(Arc::clone(text)))
    }
}

/// A histogram's values.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::serve) struct Distribution {
    pub(in crate::serve) sum: f64,
    pub(in crate::serve) count: u64,
    /// Upper bounds, the last one infinite, and the number of values up to each and above the one
    /// before.
    pub(in crate::serve) buckets: Vec<(f64, u64)>,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::serve) enum Value {
    Count(u64),
    Number(f64),
    Distribution(Distribution),
}

impl Value {
    /// How many series it makes.
    #[cfg(test)]
    fn series(&self) -> usize {
        match self {
            Self::Count(_) | Self::Number(_) => 1,
            // The buckets, the sum, the count.
            Self::Distribution(distribution) => distribution.buckets.len() + 2,
        }
    }
}

/// The values of all series, by metric.
#[derive(Debug, Default)]
pub(in crate::serve) struct Samples(Vec<(Metric, Vec<Text>, Value)>);

impl Samples {
    /// Adds a whole number. Labels are those of the metric, in its order.
    pub(in crate::serve) fn count(&mut self, metric: Metric, labels: Vec<Text>, count: u64) {
        self.add(metric, labels, Value::Count(count));
    }

    /// Adds a number.
    pub(in crate::serve) fn number(&mut self, metric: Metric, labels: Vec<Text>, number: f64) {
        self.add(metric, labels, Value::Number(number));
    }

    /// Adds a histogram.
    pub(in crate::serve) fn distribution(
        &mut self,
        metric: Metric,
        labels: Vec<Text>,
        distribution: Distribution,
    ) {
        self.add(metric, labels, Value::Distribution(distribution));
    }

    fn add(&mut self, metric: Metric, labels: Vec<Text>, value: Value) {
        debug_assert_eq!(labels.len(), metric.labels().len(), "{metric:?}");
        self.0.push((metric, labels, value));
    }

    /// The series of one metric.
    pub(in crate::serve) fn of(&self, metric: Metric) -> impl Iterator<Item = (&[Text], &Value)> {
        let samples = self.0.iter().filter(move |(of, _, _)| *of == metric);
        samples.map(|(_, labels, value)| (labels.as_slice(), value))
    }

    /// How many series there are.
    #[cfg(test)]
    pub(in crate::serve) fn series(&self) -> usize {
        self.0.iter().map(|(_, _, value)| value.series()).sum()
    }
}
