//! Calls that fail, and memory that is refused.

use analyzer::failures::{self, ErrorReport};
use analyzer::findings::{Confidence, Severity};
use analyzer::report::Report;
use analyzer::text::Colour;
use trace::{Event, Fact, Kind, fact};

use crate::printed::{assert_documented, golden};
use crate::sample::{self, ENGINE, SECOND, START, Sample};
use crate::{is_quiet, sample_report};

/// A program one of whose calls fails with `code`; whether all later ones do, too.
fn failing(code: i32, is_sticky: bool) -> Report {
    let mut sample = Sample::new();
    sample.fact(START, ENGINE, &sample::process(ENGINE, "python", true));
    for step in 0..30 {
        let launch = Event {
            kernel: Some(u32::from(step >= 20)),
            ..sample::at(ENGINE, step * 10)
        };
        if step < 21 {
            sample.row("cudaLaunchKernel", Kind::Call, launch);
        }
        let result = match step {
            21 => code,
            22.. if is_sticky => code,
            _ => 0,
        };
        let wait = sample::at(ENGINE, step * 10 + 5);
        sample.call("cudaStreamSynchronize", result, 1000, wait);
    }
    for (id, name) in [(0, "gemm_kernel"), (1, "gather_kernel")] {
        let kernel = fact::Kernel {
            id,
            name: Some(name.to_owned()),
            module: None,
            handle: 1,
        };
        sample.fact(START, ENGINE, &Fact::Kernel(kernel));
    }
    sample.end(START + SECOND, |_| {});
    sample_report(&sample)
}

fn errors_text(report: Report) -> String {
    let mut text = Vec::new();
    failures::write(&ErrorReport::of(report), Colour::Off, &mut text).expect("memory takes all");
    String::from_utf8(text).expect("text")
}

#[test]
fn an_illegal_address() {
    for code in [214, 220, 700, 710, 719] {
        let report = failing(code, true);
        let error = &report.findings[0];
        assert_eq!(error.id, format!("error.fatal:4242:{code}"));
        assert_eq!(error.severity, Severity::Critical);
        let failure = &report.failures[0];
        assert_eq!(
            (failure.calls, failure.calls_after, failure.failed_after),
            (9, 8, 8)
        );
        assert_eq!(failure.is_sticky(), Some(true));
        let last = failure.launches_before.last().expect("a launch");
        assert_eq!(last.kernel.as_deref(), Some("gather_kernel"));
    }
    golden("errors.txt", &errors_text(failing(700, true)));
}

/// What an assertion in a kernel looks like where nothing waits for the device before PyTorch asks:
/// `cudaGetLastError` returns it, which is not traced. The program asks for its text, and then makes
/// `later` calls, each with its result.
fn told_of(code: u64, later: &[(&'static str, i32)]) -> Report {
    let mut sample = Sample::new();
    sample.fact(START, ENGINE, &sample::process(ENGINE, "python", true));
    sample.row("cudaLaunchKernel", Kind::Call, sample::at(ENGINE, 10));
    for (ms, api) in [(20, "cudaGetErrorString"), (21, "cudaGetErrorName")] {
        let asked = Event {
            option: Some(code),
            ..sample::at(ENGINE, ms)
        };
        sample.row(api, Kind::Call, asked);
    }
    for (ms, (api, result)) in (30..).zip(later) {
        sample.call(api, *result, 10, sample::at(ENGINE, ms));
    }
    sample.end(START + SECOND, |_| {});
    sample_report(&sample)
}

#[test]
fn an_error_that_no_traced_call_returned() {
    let report = told_of(710, &[]);
    let error = &report.findings[0];
    assert_eq!(error.id, "error.fatal:4242:710");
    assert_eq!(error.severity, Severity::Critical);
    let failure = &report.failures[0];
    assert_eq!(
        (failure.calls, failure.first.api),
        (0, "cudaGetErrorString")
    );
    assert_eq!(failure.launches_before.len(), 1);
    golden("errors-told.txt", &errors_text(report));
    // No error, not ready, and codes beyond any.
    for code in [0, 600, u64::MAX] {
        assert!(told_of(code, &[]).failures.is_empty());
    }
    is_quiet(&told_of(100, &[]));
}

/// As a program ends, its frees return what it was told of before. The function that gave the text
/// did not fail.
#[test]
fn an_error_that_calls_return_after_it_was_told() {
    let report = told_of(710, &[("cudaFree", 710), ("cudaStreamSynchronize", 710)]);
    let failure = &report.failures[0];
    assert_eq!((failure.calls, failure.failed_after), (2, 2));
    assert_eq!(failure.first.api, "cudaGetErrorString");
    let error = &report.findings[0];
    assert!(
        !error.claim.contains("cudaGetErrorString"),
        "{}",
        error.claim
    );
    assert!(error.evidence[0].what.starts_with("asks what 710 means"));
    assert_eq!(error.confidence, Confidence::High);
}

#[test]
fn errors_that_programs_live_with() {
    for code in [1, 500, 600, 704, 801] {
        let report = failing(code, false);
        is_quiet(&report);
        assert_eq!(report.failures.len(), usize::from(code != 600));
    }
    is_quiet(&failing(0, false));
}

/// An allocation that is refused, and then: frees, and the same again with these results.
fn refused(frees: bool, later: &[(i64, i32)]) -> Report {
    let mut sample = Sample::new();
    sample.fact(START, ENGINE, &sample::process(ENGINE, "python", true));
    let alloc = |ms, address: u64, size| Event {
        address: Some(address).filter(|address| *address > 0),
        size: Some(size),
        device: Some(0),
        ..sample::at(ENGINE, ms)
    };
    sample.call("cudaMalloc", 0, 10, alloc(1, 0x7f00_0000_0000, 1 << 30));
    sample.call("cudaMalloc", 2, 10, alloc(2, 0, 2 << 30));
    if frees {
        let block = alloc(3, 0x7f00_0000_0000, 0);
        sample.row("cudaFree", Kind::Begin, block.clone());
        sample.call("cudaFree", 0, 10, block);
    }
    for (n, (size, result)) in (4..).zip(later) {
        let address = if *result == 0 { n << 40 } else { 0 };
        sample.call("cudaMalloc", *result, 10, alloc(n, address, *size));
    }
    sample.end(START + SECOND, |_| {});
    sample_report(&sample)
}

#[test]
fn memory_that_is_refused() {
    let first = |report: &Report| {
        let finding = report.findings.first().expect("a finding");
        (finding.id.clone(), finding.severity)
    };
    let retried = refused(true, &[(2 << 30, 0)]);
    assert_eq!(
        first(&retried),
        ("allocator.retry:4242".to_owned(), Severity::Warning)
    );
    let failed = refused(true, &[(2 << 30, 2)]);
    assert_eq!(
        first(&failed),
        ("oom.refused:4242".to_owned(), Severity::Critical)
    );
    assert_eq!(failed.refusals[0].unanswered, 2);
    // It asks how much there is by trying, and is content with less.
    is_quiet(&refused(false, &[(1 << 30, 0)]));
}

#[test]
fn each_json_key_is_documented() {
    let errors = ErrorReport::of(failing(700, true));
    assert_documented(&errors, &["errors.md", "findings.md", "report.md"]);
    let refused = ErrorReport::of(refused(true, &[(2 << 30, 0)]));
    assert_documented(&refused, &["errors.md", "findings.md", "report.md"]);
}
