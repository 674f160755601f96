//! Input that lies: no panic, no memory beyond what a batch may take.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use trace::{Cause, End, ReadError, Reader, repair};

use crate::samples::{Recording, read};

/// An allocation beyond this aborts the test.
const ADDRESS_SPACE: u64 = 8 << 30;

fn limit_memory() {
    let (_, hard) = getrlimit(Resource::RLIMIT_AS).unwrap();
    setrlimit(Resource::RLIMIT_AS, ADDRESS_SPACE.min(hard), hard).unwrap();
}

/// Reads what can be read. Returns how many rows that were.
fn exhaust(bytes: &[u8]) -> Option<usize> {
    let mut reader = Reader::new(bytes).ok()?;
    let mut rows = 0;
    for batch in reader.by_ref() {
        rows += batch.expect("memory can be read").iter().count();
    }
    assert!(reader.end().is_some());
    assert!(reader.next().is_none());
    Some(rows)
}

#[test]
fn no_flipped_bit_panics() {
    limit_memory();
    let recording = Recording::new();
    let mut damaged = recording.bytes.clone();
    let mut unread = 0;
    for position in 0..damaged.len() {
        for flip in [1 << (position % 8), 0x80, 0xff] {
            damaged[position] ^= flip;
            let rows = exhaust(&damaged);
            if flip == 0xff {
                let repaired = repair(&*damaged, Vec::new()).ok();
                assert_eq!(
                    repaired.map(|report| report.rows),
                    rows.map(|rows| rows as u64)
                );
            }
            unread += usize::from(rows != Some(recording.events().len()));
            damaged[position] ^= flip;
        }
    }
    assert!(
        unread > damaged.len() / 4,
        "only {unread} flips were noticed"
    );
}

#[test]
fn no_overwritten_word_panics() {
    limit_memory();
    let recording = Recording::new();
    // Arrow's numbers are aligned to their size.
    for position in (0..recording.bytes.len() - 8).step_by(4) {
        for word in [i64::MIN, i64::MAX, -1, i64::from(i32::MAX), 1 << 28, 0] {
            let mut damaged = recording.bytes.clone();
            damaged[position..position + 8].copy_from_slice(&word.to_le_bytes());
            exhaust(&damaged);
        }
    }
}

/// The first buffer of each body begins with the length that it claims to decompress to.
#[test]
fn a_buffer_cannot_claim_more_than_a_batch_holds() {
    limit_memory();
    let recording = Recording::new();
    let (start, _) = recording.batches[0];
    let metadata = i32::from_le_bytes(recording.bytes[start + 4..start + 8].try_into().unwrap());
    let body = start + 8 + usize::try_from(metadata).unwrap();
    for claim in [i64::MAX, i64::MIN, -2, 1 << 40, (256 << 20) + 1] {
        let mut damaged = recording.bytes.clone();
        damaged[body..body + 8].copy_from_slice(&claim.to_le_bytes());
        let (events, reader) = read(&damaged);
        assert_eq!(events, recording.events()[..2]);
        assert_eq!(
            reader.end(),
            Some(&End::Truncated {
                whole: start as u64,
                cause: Cause::Damaged("a buffer that claims too many bytes".to_owned()),
            })
        );
    }
}

#[test]
fn a_message_cannot_claim_more_than_there_is() {
    limit_memory();
    let recording = Recording::new();
    let (end, _) = recording.batches[1];
    for (claim, cause) in [
        (u32::MAX, None),
        (i32::MAX.cast_unsigned(), None),
        (1 << 20, Some(Cause::Torn)),
    ] {
        let mut damaged = recording.bytes[..end].to_vec();
        damaged.extend([0xff; 4]);
        damaged.extend(claim.to_le_bytes());
        damaged.extend([0; 64]);
        let (events, reader) = read(&damaged);
        assert_eq!(events, recording.events()[..3]);
        let Some(End::Truncated {
            whole,
            cause: found,
        }) = reader.end()
        else {
            panic!("truncated, and yet complete");
        };
        assert_eq!(*whole, end as u64);
        match cause {
            Some(cause) => assert_eq!(*found, cause),
            None => assert!(matches!(found, Cause::Damaged(_)), "{found:?}"),
        }
    }
}

#[test]
fn other_files_are_refused() {
    limit_memory();
    let elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".repeat(64);
    let endless_metadata = [[0xff; 4], [0xff, 0xff, 0xff, 0x7f]].concat();
    for bytes in [
        &b""[..],
        b"\xff",
        b"ARROW1\0\0",
        &elf,
        &endless_metadata,
        &[0xff; 64],
    ] {
        let error = Reader::new(bytes).unwrap_err();
        assert!(matches!(error, ReadError::NotARecording(_)), "{error}");
    }
}
