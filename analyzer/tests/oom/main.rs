//! Verdicts on out-of-memory messages: from the log alone, and with a recording or a snapshot.
#![expect(
    clippy::unwrap_used,
    reason = "a test panics where its ground gives way"
)]

mod command;
mod h100;
mod logs;
#[path = "../../../ledger/tests/oracle/mod.rs"]
mod oracle;
mod sources;

use std::path::{Path, PathBuf};

use analyzer::oom::{Collector, Report};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn of_text(text: &str) -> Report {
    let mut collector = Collector::default();
    collector.log("test");
    text.lines().for_each(|line| collector.line(line));
    collector.finish(None)
}

fn of_file(name: &str) -> Report {
    of_text(&std::fs::read_to_string(fixtures().join("oom").join(name)).unwrap())
}
