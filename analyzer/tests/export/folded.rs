//! Folded stacks.

use trace::{Kind, Reader};

use crate::{directory, exported, python, recordings, script};

#[test]
fn stacks_sum_up_to_what_is_live() {
    let directory = directory();
    for (number, recording) in recordings().iter().enumerate() {
        let file = std::fs::File::open(recording).expect("the recording");
        let moments: Vec<u64> = Reader::new(file)
            .expect("a recording")
            .flat_map(|batch| batch.expect("a batch").iter().collect::<Vec<_>>())
            .filter(|event| event.kind == Kind::Call)
            .map(|event| event.timestamp + event.duration.unwrap_or(0))
            .collect();
        let mut largest = 0;
        for part in 1..5 {
            let moment = moments[moments.len() * part / 5];
            let at = directory.path().join(format!("{number}-{part}"));
            std::fs::create_dir(&at).expect("a directory");
            let name = recording.file_stem().expect("a name").to_string_lossy();
            let folded = at.join(format!("{name}.folded"));
            let output = crate::export(&[
                &"--format",
                &"folded",
                &"-o",
                &folded,
                &"--to",
                &format!("@{moment}"),
                &recording,
            ]);
            assert!(output.status.success(), "{}", crate::text(&output.stderr));
            let sum = script(
                &python(),
                "folded.py",
                &[&recording, &folded, &moment.to_string()],
            );
            largest = largest.max(sum.trim().parse::<u64>().expect("a number"));
        }
        assert!(
            largest > 1 << 20,
            "{}: nothing was live",
            recording.display()
        );
    }
}

#[test]
fn what_is_live_at_the_end_is_the_default() {
    let directory = directory();
    let recording = crate::everything(&directory);
    let folded = exported(&directory, "folded", &recording, &[]);
    let folded = std::fs::read_to_string(folded).expect("text");
    assert!(
        folded.contains(
            "VLLM::EngineCore 4242;device 0;device;[unknown];up to 1073741824 bytes 1073741824\n"
        ),
        "{folded}"
    );
}
