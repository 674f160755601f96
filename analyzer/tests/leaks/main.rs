//! Leaks and what looks like one, in recordings whose truth is known.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "random sizes and times"
)]

mod failing;
#[path = "../printed/mod.rs"]
mod printed;
#[path = "../sample/mod.rs"]
mod sample;
mod seeded;
mod shapes;
mod workloads;
mod world;

use analyzer::findings::{Finding, Severity};
use analyzer::report::{Collector, Report};
use analyzer::selection::Selection;
use trace::Reader;

fn report(file: &[u8]) -> Report {
    let mut reader = Reader::new(file).expect("a recording");
    let mut collector = Collector::new(Selection::default());
    for batch in &mut reader {
        collector.batch(&batch.expect("memory can be read"));
    }
    collector.finish(reader.end().expect("all was read"))
}

fn sample_report(sample: &sample::Sample) -> Report {
    report(&sample.file())
}

/// The findings of at least this severity.
fn found(report: &Report, severity: Severity) -> Vec<&Finding> {
    let findings = report.findings.iter();
    findings
        .filter(|finding| finding.severity <= severity)
        .collect()
}

fn is_quiet(report: &Report) {
    let urgent = found(report, Severity::Warning);
    assert!(urgent.is_empty(), "{urgent:#?}");
}
