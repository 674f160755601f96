//! What `report` costs: reads a recording into memory, and prints how many million rows one
//! core reads, and reads and sums up, in a second of CPU time.
//!
//! ```text
//! cargo run --release -p trace --example recording -- busy.arrows 1000000    # makes one
//! cargo run --release -p analyzer --example throughput -- busy.arrows
//! ```
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::time::Duration;

use analyzer::report::{COLUMNS, Collector};
use analyzer::selection::Selection;
use nix::time::{ClockId, clock_gettime};
use trace::Reader;

fn main() {
    let path = std::env::args_os().nth(1).expect("the path of a recording");
    let recording = std::fs::read(path).expect("a file");
    measure("read", &recording, false);
    measure("report", &recording, true);
}

/// The fastest of several runs.
fn measure(what: &str, recording: &[u8], collect: bool) {
    let mut best = Duration::MAX;
    let mut rows = 0;
    for _ in 0..7 {
        let start = cpu_time();
        let mut reader = Reader::new(recording).expect("a recording").select(COLUMNS);
        let mut collector = Collector::new(Selection::default());
        rows = 0;
        for batch in &mut reader {
            let batch = batch.expect("memory can be read");
            rows += batch.len();
            if collect {
                collector.batch(&batch);
            }
        }
        let report = collector.finish(reader.end().expect("all was read"));
        assert!(!collect || report.recording.events == rows as u64);
        best = best.min(cpu_time().saturating_sub(start));
    }
    println!(
        "{what}: {:.1} M rows/s",
        rows as f64 / best.as_secs_f64() / 1e6
    );
}

/// Of this thread: what others do on the machine counts little.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .expect("every unix has it")
        .into()
}
