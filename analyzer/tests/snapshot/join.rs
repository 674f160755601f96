//! A snapshot beside a recording of the same run.

use analyzer::snapshot::{Join, Search, Snapshot, read};
use trace::Event;

use crate::oracle::{Gpu, MIB, PID, Recorder, Torch, introduction};

/// The state of the model's allocator as PyTorch would dump it.
fn dump(torch: &Torch) -> Snapshot {
    let mut pickle = b"\x80\x02}(".to_vec();
    text(&mut pickle, "segments");
    pickle.extend(b"](");
    for segment in &torch.segments {
        pickle.extend(b"}(");
        number(&mut pickle, "address", segment.address);
        number(&mut pickle, "total_size", segment.size);
        number(&mut pickle, "device", 0);
        text(&mut pickle, "blocks");
        pickle.extend(b"](");
        for block in &segment.blocks {
            pickle.extend(b"}(");
            number(&mut pickle, "size", block.size);
            text(&mut pickle, "state");
            let state = if block.allocated {
                "active_allocated"
            } else {
                "inactive"
            };
            text(&mut pickle, state);
            pickle.push(b'u');
        }
        pickle.extend(b"eu");
    }
    pickle.extend(b"eu.");
    read(pickle.as_slice()).unwrap()
}

fn text(pickle: &mut Vec<u8>, text: &str) {
    pickle.push(b'X');
    pickle.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
    pickle.extend(text.as_bytes());
}

fn number(pickle: &mut Vec<u8>, key: &str, value: u64) {
    text(pickle, key);
    pickle.extend(b"\x8a\x08");
    pickle.extend(value.to_le_bytes());
}

fn join(snapshot: &Snapshot, events: &[Event]) -> Join {
    let mut search = Search::new(snapshot);
    for event in events {
        search.push(event);
    }
    let mut comparison = search.finish();
    for event in events {
        comparison.push(event);
    }
    comparison.finish()
}

/// A run with a snapshot in the middle of it.
fn run() -> (Snapshot, Recorder) {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(true));
    let (mut gpu, mut torch) = (Gpu::new(0, 4096 * MIB), Torch::default());
    let mut held = Vec::new();
    for step in 0..60_u64 {
        let size = (step * step * 7919) % (30 * MIB) + 1;
        held.push(torch.malloc(&mut gpu, &mut recorder, 7, size).unwrap());
        if step % 3 == 2 {
            let place = usize::try_from(step * 5).unwrap() % held.len();
            torch.free(&gpu, &mut recorder, 7, held.swap_remove(place));
        }
    }
    let snapshot = dump(&torch);
    for address in held.drain(10..) {
        torch.free(&gpu, &mut recorder, 7, address);
    }
    for _ in 0..20 {
        torch.malloc(&mut gpu, &mut recorder, 7, 3 * MIB).unwrap();
    }
    (snapshot, recorder)
}

#[test]
fn the_moment_is_found_and_every_block_is_equal() {
    let (snapshot, recorder) = run();
    let joined = join(&snapshot, &recorder.events);
    let device = &joined.devices[0];
    assert!(joined.equal, "{device:?}");
    assert_eq!(device.pid, Some(PID));
    assert_eq!(device.blocks_equal, 40);
    assert!(device.segments_equal > 5);
    assert_eq!(
        device.allocated_in_recording,
        Some(device.allocated_in_snapshot)
    );
    assert_eq!(
        device.reserved_in_recording,
        Some(device.reserved_in_snapshot)
    );
}

#[test]
fn a_lost_report_is_named() {
    let (snapshot, mut recorder) = run();
    // The 30th block that came: its report is lost.
    let place = recorder
        .events
        .iter()
        .enumerate()
        .filter(|(_, event)| event.allocated.is_some() && event.size.unwrap() > 0)
        .map(|(place, _)| place)
        .nth(55)
        .unwrap();
    let lost = recorder.events.remove(place);
    let joined = join(&snapshot, &recorder.events);
    let device = &joined.devices[0];
    assert!(!joined.equal);
    assert_eq!(
        (
            device.blocks_only_in_snapshot,
            device.blocks_only_in_recording
        ),
        (1, 0)
    );
    let difference = device.differences[0];
    assert_eq!(
        (
            difference.what,
            difference.only_in,
            Some(difference.address)
        ),
        ("block", "snapshot", lost.address)
    );
}

#[test]
fn a_recording_of_another_run_has_nothing_in_common() {
    let (snapshot, _) = run();
    let joined = join(&snapshot, &[]);
    assert!(!joined.equal);
    assert_eq!(joined.devices[0].pid, None);
    assert_eq!(joined.devices[0].blocks_only_in_snapshot, 40);
}
