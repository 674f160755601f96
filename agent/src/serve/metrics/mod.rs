//! Metrics: which there are ([`Metric`]), their values at one moment ([`Samples`]), the two
//! formats in which Prometheus reads them, and the same as a document ([`Page`]).

mod catalogue;
mod encode;
mod own;
mod page;
mod recording;
mod samples;

pub(crate) use catalogue::Metric;
pub(in crate::serve) use encode::Format;
pub(in crate::serve) use own::collect as collect_own;
pub(crate) use page::{Page, Reading, SCHEMA, Series};
pub(in crate::serve) use recording::collect as collect_recording;
pub(in crate::serve) use samples::{Distribution, Samples, Text};
#[cfg(feature = "otlp")]
pub(in crate::serve) use {
    catalogue::{Type, Unit},
    samples::Value,
};
