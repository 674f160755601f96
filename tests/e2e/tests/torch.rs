//! PyTorch's allocator from outside, on a stand-in for libc10 with the same exports.

use e2e::{events, record, report};
use trace::Kind;

#[test]
fn totals_at_every_checkpoint() {
    let run = record(&[], "torch", &["--out-of-memory", "--rounds", "3"]);
    let (events, _) = events(&run.file);
    let reports: Vec<_> = events
        .iter()
        .filter(|event| event.kind == Kind::Call && event.reserved.is_some())
        .collect();
    let checkpoints = run.truth["checkpoints"].as_array().expect("checkpoints");
    assert!(!checkpoints.is_empty());
    for checkpoint in checkpoints {
        let at = checkpoint["monotonic_ns"].as_u64().expect("a time");
        let last = reports.iter().rfind(|event| event.timestamp <= at);
        let Some(last) = last else { continue };
        assert_eq!(
            checkpoint["allocated"],
            last.allocated.expect("a total"),
            "{checkpoint}"
        );
    }
    let memory = &report(&run.file)["memory"][0];
    let end = checkpoints.last().expect("one");
    assert_eq!(memory["torch"]["allocated"], end["allocated"]);
}
