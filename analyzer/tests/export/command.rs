//! The command line: what is selected, where it goes, what is refused.

use std::fs;
use std::path::Path;

use crate::{directory, everything, export, exported, recordings, text};

/// The rows of JSON Lines.
fn lines(path: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(path).expect("text");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn a_part_can_be_chosen() {
    let directory = directory();
    let recording = recordings().remove(0);
    let all = lines(&exported(&directory, "jsonl", &recording, &[]));
    let start = all[0]["ts"].as_u64().expect("a number");
    let (from, to) = (start + 3_000_000_000, start + 9_500_000_000);
    let part = directory.path().join("part");
    let output = export(&[
        &"--format",
        &"jsonl",
        &"-o",
        &part,
        &"--from",
        &"3",
        &"--to",
        &format!("@{to}"),
        &"--pid",
        &"595",
        &recording,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let wanted: Vec<_> = all
        .iter()
        .filter(|row| {
            let moment = row["ts"].as_u64().expect("a number");
            (from..to).contains(&moment) && (row["pid"] == 595 || row["pid"] == 0)
        })
        .cloned()
        .collect();
    assert!(wanted.len() > 10 && wanted.len() < all.len());
    assert_eq!(lines(&part), wanted);

    let first = directory.path().join("first");
    let output = export(&[
        &"--format",
        &"jsonl",
        &"-o",
        &first,
        &"--max-events",
        &"7",
        &recording,
    ]);
    assert_eq!(
        text(&output.stderr),
        format!(
            "warning: there are more rows than --max-events: the rest was left out\n\
             7 events in {} bytes: {}\n",
            fs::metadata(&first).expect("the file").len(),
            first.display()
        )
    );
    assert_eq!(lines(&first), all[..7]);
}

#[test]
fn standard_output_is_the_default_and_standard_input_will_do() {
    let directory = directory();
    let recording = everything(&directory);
    for format in ["perfetto", "chrome", "jsonl", "csv", "folded"] {
        let file = fs::read(exported(&directory, format, &recording, &[])).expect("the export");
        let output = export(&[&"--format", &format, &recording]);
        // One kernel of the sample never got a name.
        let warning = match format {
            "folded" => "",
            _ => "warning: launches without a kernel name: 1 (the recording has none)\n",
        };
        assert_eq!(text(&output.stderr), warning);
        assert!(output.stdout == file, "{format}");
    }
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_cudasnoop-analyzer"))
        .args(["export", "--format", "csv", "-"])
        .stdin(fs::File::open(&recording).expect("the recording"))
        .output()
        .expect("the command runs");
    let file = directory.path().join("everything.csv");
    assert!(output.stdout == fs::read(file).expect("the export"));
}

#[test]
fn nothing_is_overwritten_and_nothing_half_done_is_left() {
    let directory = directory();
    let recording = everything(&directory);
    let there = exported(&directory, "jsonl", &recording, &[]);
    let before = fs::read(&there).expect("the export");
    let output = export(&[&"--format", &"csv", &"-o", &there, &recording]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: cannot create "));
    assert_eq!(fs::read(&there).expect("the export"), before);

    let notes = directory.path().join("notes.txt");
    fs::write(&notes, "dear diary").expect("the file can be written");
    let target = directory.path().join("new");
    let output = export(&[&"--format", &"csv", &"-o", &target, &notes]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!target.exists());

    let fleet = exported(&directory, "parquet", &recording, &[]);
    let output = export(&[&"--format", &"parquet", &"-o", &fleet, &recording]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("exists: this was exported before"),
        "{}",
        text(&output.stderr)
    );
    let output = export(&[&"--format", &"parquet", &recording]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_torn_recording_is_exported_with_a_warning() {
    let directory = directory();
    let recording = everything(&directory);
    let mut bytes = fs::read(&recording).expect("the recording");
    bytes.truncate(bytes.len() - 8);
    fs::write(&recording, bytes).expect("the file can be written");
    let output = export(&[&"--format", &"jsonl", &recording]);
    assert!(output.status.success() && !output.stdout.is_empty());
    assert!(text(&output.stderr).starts_with("warning: the recording is truncated"));
}
