//! Metrics: which there are ([`Metric`]), their values at one moment ([`Samples`]), and the two
//! formats in which Prometheus reads them.

mod catalogue;
mod encode;
mod own;
mod recording;
mod samples;

pub(in crate::serve) use catalogue::Metric;
pub(in crate::serve) use encode::Format;
pub(in crate::serve) use own::collect as collect_own;
pub(in crate::serve) use recording::collect as collect_recording;
pub(in crate::serve) use samples::{Distribution, Samples, Text};
