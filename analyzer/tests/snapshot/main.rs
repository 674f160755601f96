//! The snapshot reader and report: against PyTorch's own viewer, against recordings made by a
//! model of the allocator, and against damage.
#![expect(
    clippy::unwrap_used,
    reason = "a test panics where its ground gives way"
)]

mod command;
mod damage;
mod h100;
mod join;
#[path = "../../../ledger/tests/oracle/mod.rs"]
mod oracle;
mod viewer;

use std::path::{Path, PathBuf};

use analyzer::snapshot::{self, Report, Snapshot};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixtures().join("snapshot").join(format!("{name}.pickle"))).unwrap()
}

fn read(name: &str) -> Snapshot {
    snapshot::read(bytes(name).as_slice()).unwrap()
}

fn report(name: &str) -> Report {
    Report::new(&read(name), None)
}
