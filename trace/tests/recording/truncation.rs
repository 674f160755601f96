//! Recordings that were cut short.

use trace::{Cause, End, ReadError, Reader, repair};

use crate::samples::{Recording, read};

/// Every prefix reads up to the last whole batch, and is repaired to exactly that.
#[test]
fn a_cut_at_any_byte_keeps_the_whole_batches() {
    let recording = Recording::new();
    let complete = recording.bytes.len();
    for cut in 0..complete {
        let torn = &recording.bytes[..cut];
        if cut < recording.header {
            let error = Reader::new(torn).unwrap_err();
            assert!(
                matches!(error, ReadError::NotARecording(_)),
                "{cut}: {error}"
            );
            continue;
        }
        let whole: Vec<_> = recording
            .batches
            .iter()
            .take_while(|(end, _)| *end <= cut)
            .cloned()
            .collect();
        let expected: Vec<_> = whole
            .iter()
            .flat_map(|(_, events)| events.clone())
            .collect();

        let (events, reader) = read(torn);
        assert_eq!(events, expected, "cut at byte {cut}");
        let Some(End::Truncated { whole: kept, cause }) = reader.end().cloned() else {
            panic!("cut at byte {cut}, and yet complete");
        };
        let is_between_messages = kept == cut as u64;
        assert_eq!(
            cause,
            if is_between_messages {
                Cause::NoEndMarker
            } else {
                Cause::Torn
            }
        );
        assert!(kept >= whole.last().map_or(recording.header, |(end, _)| *end) as u64);

        let mut repaired = Vec::new();
        let report = repair(torn, &mut repaired).unwrap();
        assert_eq!(report.end, End::Truncated { whole: kept, cause });
        assert_eq!(report.batches, whole.len() as u64);
        assert_eq!(report.rows, expected.len() as u64);
        assert_eq!((report.kept, report.kept + report.cut), (kept, cut as u64));
        let (events, reader) = read(&repaired);
        assert_eq!(events, expected);
        assert_eq!(reader.end(), Some(&End::Complete));
    }
}

#[test]
fn a_complete_recording_is_repaired_to_itself() {
    let recording = Recording::new();
    let mut repaired = Vec::new();
    let report = repair(&*recording.bytes, &mut repaired).unwrap();
    assert_eq!(repaired, recording.bytes);
    assert_eq!((report.end, report.cut), (End::Complete, 0));
    assert_eq!((report.batches, report.rows), (3, 6));
}

#[test]
fn what_follows_the_end_is_cut() {
    let mut recording = Recording::new();
    let complete = recording.bytes.clone();
    recording.bytes.extend([0; 100]);
    let mut repaired = Vec::new();
    let report = repair(&*recording.bytes, &mut repaired).unwrap();
    assert_eq!(repaired, complete);
    assert_eq!((report.end, report.cut), (End::Complete, 100));
}

/// A file that grew in size before a power cut, and not in content.
#[test]
fn a_tail_of_zeros_is_cut() {
    let recording = Recording::new();
    let (end, _) = recording.batches[1];
    let mut torn = recording.bytes[..end].to_vec();
    torn.resize(end + 4_096, 0);
    let (events, reader) = read(&torn);
    assert_eq!(events, recording.events()[..3]);
    assert!(matches!(
        reader.end(),
        Some(End::Truncated { whole, cause: Cause::Damaged(_) }) if *whole == end as u64
    ));
    let report = repair(&*torn, Vec::new()).unwrap();
    assert_eq!((report.rows, report.cut), (3, 4_096));
}
