//! The snapshot reader, and everything that is made of what it reads.
#![no_main]

use analyzer::snapshot::{self, Report, write_text};
use analyzer::text::Colour;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(snapshot) = snapshot::read(data) else {
        return;
    };
    let report = Report::new(&snapshot, Some(data.len() as u64 * 4096));
    write_text(&report, Colour::Off, &mut std::io::sink()).expect("a sink takes all");
    serde_json::to_writer(std::io::sink(), &report).expect("a report is JSON");
});
