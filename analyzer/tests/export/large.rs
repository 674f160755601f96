//! Memory does not grow with the number of rows.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use agent_common::ApiId;
use tempfile::TempDir;
use trace::{Event, Writer};

use crate::{directory, python, script};

/// A recording of so many blocks that come and go, in 16 threads.
fn recording(directory: &TempDir, blocks: u64) -> PathBuf {
    let path = directory.path().join(format!("{blocks}.arrows"));
    let file = BufWriter::new(File::create(&path).expect("the file can be written"));
    let mut writer = Writer::new(file).expect("the file can be written");
    let api = |name| ApiId::by_name(name);
    let functions = [api("cudaMalloc"), api("cudaLaunchKernel"), api("cudaFree")];
    for n in 0..blocks {
        for (step, function) in (0..).zip(functions) {
            let event = Event {
                timestamp: 1_000_000 + n * 10_000 + step * 3_000,
                duration: (step != 1).then_some(2_000),
                pid: 7,
                tid: 100 + u32::try_from(n % 16).expect("a small number"),
                api: function,
                result: (step != 1).then_some(0),
                device: Some(0),
                address: (step != 1).then_some(0x7000_0000_0000 + (n << 21)),
                size: (step == 0).then_some(1 << 20),
                ..Event::default()
            };
            writer.push(&event).expect("the file can be written");
        }
    }
    writer.finish().expect("the file can be written");
    path
}

#[test]
fn memory_does_not_grow_with_the_rows() {
    let directory = directory();
    // Two row groups of Parquet at least.
    let (small, large) = (
        recording(&directory, 100_000),
        recording(&directory, 300_000),
    );
    for format in ["perfetto", "chrome", "jsonl", "csv", "parquet", "folded"] {
        let most = |recording: &PathBuf| -> u64 {
            let name = recording.file_stem().expect("a name").to_string_lossy();
            let output = directory.path().join(format!("{name}.{format}"));
            let command = env!("CARGO_BIN_EXE_cudasnoop-analyzer");
            let printed = script(
                &python(),
                "large.py",
                &[
                    &command,
                    &"export",
                    &"--format",
                    &format,
                    &"-o",
                    &output,
                    recording,
                ],
            );
            printed.trim().parse().expect("a number")
        };
        let (of_small, of_large) = (most(&small), most(&large));
        // How much of the program's own files is mapped in differs from run to run. 200,000 rows would be
        // 20 MiB and more.
        assert!(
            of_large <= of_small + 6 * 1024,
            "{format}: {of_small} KiB, and {of_large} KiB for three times the rows"
        );
    }
}
