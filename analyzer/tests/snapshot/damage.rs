//! Damaged and hostile files: a clear error with the offset, never a panic.

use analyzer::snapshot::{self, PickleError, Report, write_text};
use analyzer::text::Colour;

use crate::{bytes, fixtures};

fn error(bytes: &[u8]) -> PickleError {
    snapshot::read(bytes).unwrap_err()
}

#[test]
fn every_cut_is_noticed() {
    for name in ["retry-works-4", "pinned-4", "two-devices-cpp"] {
        let whole = bytes(name);
        for length in (0..whole.len()).step_by(if whole.len() > 4096 { 61 } else { 1 }) {
            match error(&whole[..length]) {
                PickleError::Truncated { offset } => assert!(offset <= length as u64),
                other => panic!("{name} cut at {length}: {other}"),
            }
        }
    }
}

#[test]
fn every_flipped_byte_is_survived() {
    let whole = bytes("retry-works-4");
    for place in 0..whole.len() {
        for change in [0x01, 0x10, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[place] ^= change;
            if let Ok(snapshot) = snapshot::read(damaged.as_slice()) {
                let report = Report::new(&snapshot, Some(1 << 30));
                write_text(&report, Colour::Off, &mut std::io::sink()).unwrap();
            }
        }
    }
}

#[test]
fn code_is_refused_with_its_place() {
    // What `pickle.dumps` makes of an object whose __reduce__ is (os.system, ("id",)).
    let evil = b"\x80\x04\x95\x1d\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x02id\x94\x85\x94R\x94.";
    match error(evil) {
        PickleError::Code { offset, opcode } => assert_eq!((offset, opcode), (28, "STACK_GLOBAL")),
        other => panic!("{other}"),
    }
    assert!(matches!(
        error(b"\x80\x02cos\nsystem\n."),
        PickleError::Code {
            offset: 2,
            opcode: "GLOBAL"
        }
    ));
}

#[test]
fn what_is_no_snapshot_is_said() {
    assert!(matches!(error(b""), PickleError::Truncated { offset: 0 }));
    assert!(matches!(
        error(b"{\"a\": 1}"),
        PickleError::NotAPickle { first: b'{' }
    ));
    assert!(matches!(
        error(b"\x80\x06."),
        PickleError::Protocol { protocol: 6 }
    ));
    assert!(matches!(
        error(b"\x80\x02N."),
        PickleError::NotASnapshot { .. }
    ));
    assert!(matches!(
        error(b"\x80\x02}."),
        PickleError::NotASnapshot { .. }
    ));
    let text = error(b"\x80\x02h\x05.").to_string();
    assert_eq!(
        text,
        "the pickle is damaged at byte 4: it refers back to what is not there"
    );
}

#[test]
fn large_claims_cost_nothing() {
    let mut claim = b"\x80\x04\x8d".to_vec();
    claim.extend(u64::MAX.to_le_bytes());
    assert!(matches!(
        error(&claim),
        PickleError::TooLarge { .. } | PickleError::Truncated { .. }
    ));
    // An index of the memo far beyond what was written.
    assert!(matches!(
        error(b"\x80\x02Nr\xff\xff\xff\xff."),
        PickleError::Malformed { .. }
    ));
    let marks = [b"\x80\x02".as_slice(), &vec![b'('; 100_000]].concat();
    assert!(matches!(error(&marks), PickleError::TooLarge { .. }));
    let values = [b"\x80\x02".as_slice(), &vec![b'N'; 5_000_000]].concat();
    assert!(matches!(error(&values), PickleError::TooLarge { .. }));
    let objects = [b"\x80\x02".as_slice(), &vec![b'}'; 5_000_000]].concat();
    assert!(matches!(error(&objects), PickleError::TooLarge { .. }));
}

#[test]
fn a_list_that_holds_itself_is_survived() {
    let _ = snapshot::read(b"\x80\x02}q\x00(X\x08\0\0\0segments]q\x01h\x01au.".as_slice());
    let _ = snapshot::read(b"\x80\x02]q\x00h\x00a.".as_slice());
}

#[test]
fn the_corpus_is_replayed() {
    let mut count = 0;
    for entry in std::fs::read_dir(fixtures().join("fuzz/snapshot")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        if let Ok(snapshot) = snapshot::read(bytes.as_slice()) {
            let report = Report::new(&snapshot, Some(1 << 20));
            write_text(&report, Colour::Off, &mut std::io::sink()).unwrap();
            serde_json::to_string(&report).unwrap();
        }
        count += 1;
    }
    assert!(count > 50, "{count} files");
}
