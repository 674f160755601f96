//! The histograms as a log that `HdrHistogram`'s own tools read.

use std::io::{self, Write};
use std::time::Duration;

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::{Measured, Report};

/// Writes the histograms as an interval log, version 2 with deflated histograms: one interval, from
/// the start to the end of what was read, with one tagged line for each histogram. Values that
/// are too large for a bucket ([`crate::histogram::Distribution::over`]) are in no line.
pub fn write_log(report: &Report, mut output: impl Write) -> io::Result<()> {
    let Report {
        schema: _,
        recording,
        window,
        by: _,
        histograms,
    } = report;
    let start = recording.start_ns.unwrap_or(0);
    let from = window.from_ns.unwrap_or(start);
    let to = window.to_ns.or(recording.end_ns).unwrap_or(from);
    let length = Duration::from_nanos(to.saturating_sub(from));
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment(concat!(
            "[Logged with cudasnoop ",
            env!("CARGO_PKG_VERSION"),
            "]"
        ))
        .begin_log_with(&mut output, &mut serializer)?;
    let offset = Duration::from_nanos(from.saturating_sub(start));
    for measured in histograms {
        if measured.histogram.counts().is_empty() {
            continue;
        }
        let tag = tag(measured);
        log.write_histogram(measured.histogram.counts(), offset, length, Tag::new(&tag))
            .map_err(|error| io::Error::other(format!("{error:?}")))?;
    }
    output.flush()
}

/// The quantity, and the group behind a slash, without what separates in such a log.
fn tag(measured: &Measured) -> String {
    let quantity = measured.quantity;
    let tag = match &measured.group {
        None => quantity.to_string(),
        Some(group) => format!("{quantity}/{}", group.full_name()),
    };
    let is_separator = |c: char| c == ',' || c.is_whitespace() || c.is_control();
    tag.replace(is_separator, "_")
}
