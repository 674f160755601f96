//! The reader of out-of-memory messages, and the verdicts on them.
#![no_main]

use analyzer::oom::{Collector, write_text};
use analyzer::text::Colour;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut collector = Collector::default();
    collector.log("fuzz");
    for line in data.split(|byte| *byte == b'\n') {
        collector.line(&String::from_utf8_lossy(line));
    }
    let report = collector.finish(None);
    write_text(&report, Colour::Off, &mut std::io::sink()).expect("a sink takes all");
    serde_json::to_writer(std::io::sink(), &report).expect("a report is JSON");
});
