//! What is pushed is read, field by field.

use agent_common::{ApiId, launch::Dimensions};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use trace::{BatchBuilder, BatchWriter, End, Event, Kind, Reader, TEXT_CAPACITY, Writer};

use crate::samples::{launch, malloc, read};

fn number<T: Arbitrary + Copy + 'static>(extremes: [T; 3]) -> impl Strategy<Value = T> {
    prop_oneof![3 => any::<T>(), 1 => proptest::sample::select(extremes.to_vec())]
}

fn u64s() -> impl Strategy<Value = u64> {
    number([0, 1, u64::MAX])
}

fn u32s() -> impl Strategy<Value = u32> {
    number([0, 1, u32::MAX])
}

fn apis() -> impl Strategy<Value = Option<ApiId>> {
    option::of(proptest::sample::select(ApiId::all().collect::<Vec<_>>()))
}

prop_compose! {
    fn who()(
        timestamp in u64s(),
        pid in u32s(),
        tid in u32s(),
        kind in proptest::sample::select(Kind::ALL.to_vec()),
        api in apis(),
        parent in apis(),
        flags in u32s(),
        caller in option::of(u32s()),
        stack in option::of(u32s()),
        text in option::of(any::<String>()),
    ) -> Event {
        Event {
            timestamp, pid, tid, kind, api, parent, flags, caller, stack, text,
            ..Event::default()
        }
    }
}

prop_compose! {
    fn what()(
        duration in option::of(u64s()),
        result in option::of(number([0, i32::MIN, i32::MAX])),
        device in option::of(number([0, i32::MIN, i32::MAX])),
        address in option::of(u64s()),
        source in option::of(u64s()),
        size in option::of(number([0, i64::MIN, i64::MAX])),
        copy_kind in option::of(number([0, 4, u8::MAX])),
        stream in option::of(u64s()),
        dimensions in option::of(any::<([u32; 3], [u32; 3])>()),
    ) -> Event {
        let dimensions = dimensions.map(|(grid, block)| Dimensions { grid, block });
        Event {
            duration, result, device, address, source, size, copy_kind, stream, dimensions,
            ..Event::default()
        }
    }
}

prop_compose! {
    fn events()(
        who in who(),
        what in what(),
        shared_memory in option::of(u64s()),
        handle in option::of(u64s()),
        kernel in option::of(u32s()),
        allocated in option::of(u64s()),
        reserved in option::of(u64s()),
        device_free in option::of(u64s()),
        device_total in option::of(u64s()),
    ) -> Event {
        let Event { timestamp, pid, tid, kind, api, parent, flags, caller, stack, text, .. } = who;
        Event {
            timestamp, pid, tid, kind, api, parent, flags, caller, stack, text,
            shared_memory, handle, kernel, allocated, reserved, device_free, device_total,
            ..what
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_field_survives(batches in vec(vec(events(), 0..150), 0..4)) {
        let mut writer = Writer::new(Vec::new()).unwrap();
        let mut written = Vec::new();
        for mut batch in batches {
            for event in &mut batch {
                event.seq = writer.push(event).unwrap();
            }
            writer.flush().unwrap();
            written.append(&mut batch);
        }
        let recording = writer.finish().unwrap();
        let (events, reader) = read(&recording);
        prop_assert_eq!(events, written);
        prop_assert_eq!(reader.end(), Some(&End::Complete));
    }
}

#[test]
fn events_are_numbered_and_cut_into_batches() {
    let mut builder = BatchBuilder::new();
    let mut writer = BatchWriter::new(Vec::new()).unwrap();
    let mut full = 0;
    for number in 0..40_000 {
        let event = if number % 3 == 0 { launch() } else { malloc() };
        let pushed = builder.push(&Event { seq: 99, ..event });
        assert_eq!(pushed.seq, number);
        if let Some(batch) = pushed.full {
            assert_eq!(builder.pending(), 0);
            full += batch.rows();
            writer.write(&batch).unwrap();
        }
    }
    assert_eq!(full + builder.pending(), 40_000);
    assert!(full > 0, "40,000 rows fill a batch");
    writer.write(&builder.flush().unwrap()).unwrap();
    assert!(builder.flush().is_none());

    let (events, _) = read(&writer.finish().unwrap());
    assert_eq!(events.len(), 40_000);
    for (number, event) in (0..).zip(events) {
        let expected = if number % 3 == 0 { launch() } else { malloc() };
        assert_eq!(
            event,
            Event {
                seq: number,
                ..expected
            }
        );
    }
}

#[test]
fn an_unknown_function_has_no_name() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let unknown = Some(ApiId(u16::MAX));
    writer
        .push(&Event {
            api: unknown,
            parent: unknown,
            ..malloc()
        })
        .unwrap();
    let (events, _) = read(&writer.finish().unwrap());
    assert_eq!(
        events,
        [Event {
            api: None,
            parent: None,
            ..malloc()
        }]
    );
}

#[test]
fn a_text_that_is_too_long_is_left_out_alone() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let longest = Event {
        text: Some("x".repeat(TEXT_CAPACITY)),
        ..malloc()
    };
    writer.push(&longest).unwrap();
    writer
        .push(&Event {
            text: Some("x".repeat(TEXT_CAPACITY + 1)),
            ..malloc()
        })
        .unwrap();
    let (events, _) = read(&writer.finish().unwrap());
    assert_eq!(
        events,
        [
            longest,
            Event {
                seq: 1,
                text: None,
                ..malloc()
            }
        ]
    );
}

#[test]
fn many_long_texts_make_a_batch_full() {
    let mut builder = BatchBuilder::new();
    let event = Event {
        text: Some("x".repeat(TEXT_CAPACITY)),
        ..malloc()
    };
    let rows = (1..100)
        .find(|_| builder.push(&event).full.is_some())
        .unwrap();
    assert!(rows < 10, "{rows} MiB of text in one batch");
}

#[test]
fn columns_tell_what_events_tell() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.push(&launch()).unwrap();
    writer
        .push(&Event {
            text: Some("{}".to_owned()),
            ..malloc()
        })
        .unwrap();
    let recording = writer.finish().unwrap();

    let batch = Reader::new(&*recording).unwrap().next().unwrap().unwrap();
    assert_eq!((batch.len(), batch.is_empty()), (2, false));
    assert_eq!(**batch.ts(), [1_000, 2_000]);
    assert_eq!(
        [
            batch.size().get(0),
            batch.size().get(1),
            batch.size().get(2)
        ],
        [None, Some(2 << 20), None]
    );
    assert_eq!(batch.api().name(0), Some("cudaLaunchKernel"));
    assert_eq!(batch.layer().name(1), Some("driver"));
    assert_eq!(batch.family().name(1), Some("memory"));
    assert_eq!(batch.parent().name(0), None);
    assert_eq!(batch.text().iter().collect::<Vec<_>>(), [(1, "{}")]);

    let mut some = Reader::new(&*recording)
        .unwrap()
        .select(&["size", "no such column"]);
    let batch = some.next().unwrap().unwrap();
    assert_eq!(batch.size().get(1), Some(2 << 20));
    assert_eq!(batch.api().name(0), None);
    assert_eq!(**batch.seq(), [0, 1]);
}
