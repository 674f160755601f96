//! Rows that no program makes: of a recording that is damaged, or made to do harm.
#![expect(
    clippy::unwrap_used,
    reason = "a test panics where its ground gives way"
)]

mod consistency;

use agent_common::{ApiId, Effect, flags};
use consistency::assert_consistent;
use ledger::{Ledger, concerns_memory};
use proptest::{
    prelude::*,
    sample::{Index, select},
};
use serde_json::Value;
use trace::{Event, Fact, Kind};

const PAGE: u64 = 2 << 20;

/// Most bytes of what has no address: the sum of all must not be beyond numbers.
const MOST: i64 = 1 << 40;

/// Rows of all functions that concern memory, with fields from a small set of good and bad values,
/// so that they meet.
fn row() -> impl Strategy<Value = Event> {
    let of_memory = |id: &ApiId| concerns_memory(id.api().unwrap().effect);
    // One function of each effect: the ledger knows no more of it. PyTorch's are two.
    let mut seen: Vec<Effect> = Vec::new();
    let apis: Vec<ApiId> = ApiId::all()
        .filter(of_memory)
        .filter(|id| {
            let effect = id.api().unwrap().effect;
            let is_new = effect == Effect::TorchReport || !seen.contains(&effect);
            seen.push(effect);
            is_new
        })
        .collect();
    // What PyTorch reports meets memory of all kinds, and that is the rarest.
    let torch: Vec<ApiId> = apis
        .iter()
        .copied()
        .filter(|id| id.api().unwrap().effect == Effect::TorchReport)
        .collect();
    let api = prop_oneof![3 => select(apis), 1 => select(torch)];
    let address = vec![
        0,
        512,
        1024,
        PAGE,
        PAGE + 512,
        2 * PAGE,
        3 * PAGE,
        4 * PAGE,
        1 << 47,
        u64::MAX - 511,
        u64::MAX,
    ];
    let size = vec![
        0,
        1,
        512,
        -512,
        1024,
        2 << 20,
        -(2 << 20),
        4 << 20,
        6 << 20,
        MOST,
        i64::MIN,
    ];
    let total = vec![0, 512, 2 << 20, u64::MAX];
    let small = vec![0, 1, 2, 3];
    let some = |values: Vec<u64>| prop::option::weighted(0.9, select(values));
    let kind = prop_oneof![3 => Just(Kind::Call), 2 => select(Kind::ALL.to_vec())];
    let result = prop::option::weighted(0.9, prop_oneof![4 => Just(0), 1 => Just(2)]);
    (
        (api, kind, result),
        (some(address), prop::option::weighted(0.9, select(size))),
        (some(total.clone()), some(total)),
        (some(small.clone()), some(small.clone()), some(small)),
        (
            prop::option::of(select(vec![-1, 0, 1, i32::MIN, i32::MAX])),
            prop::option::of(0..3_u8),
            prop::option::of(0..3_u64),
            select(vec![flags::RETURNED, flags::RETURNED | flags::CAPTURED]),
        ),
        (
            1..3_u32,
            1..4_u32,
            any::<u64>(),
            prop::option::of(any::<u64>()),
        ),
    )
        .prop_map(
            |(
                (api, kind, result),
                (address, size),
                (allocated, reserved),
                (handle, related, stream),
                (device, location, option, flags),
                (pid, tid, timestamp, duration),
            )| Event {
                kind,
                api: Some(api),
                result,
                address,
                size,
                allocated,
                reserved,
                device_free: allocated,
                device_total: reserved,
                handle,
                related,
                stream,
                device,
                location,
                location_id: device,
                option,
                flags,
                pid,
                tid,
                timestamp,
                duration,
                ..Event::default()
            },
        )
}

fn state(ledger: &Ledger) -> Vec<String> {
    ledger.checkpoint().iter().map(Fact::to_text).collect()
}

fn ledger_of(rows: Vec<Event>) -> Ledger {
    let mut ledger = Ledger::default();
    for (seq, row) in rows.into_iter().enumerate() {
        ledger.apply(&Event {
            seq: seq as u64,
            ..row
        });
    }
    ledger
}

fn resume(ledger: &mut Ledger, fact: &Fact) {
    ledger.apply(&Event {
        kind: Kind::Fact,
        text: Some(fact.to_text()),
        ..Event::default()
    });
}

/// Something is changed in one value of `part`, the `nth` of those that it consists of.
fn damage(part: &mut Value, nth: &mut usize, with: &Value) {
    match part {
        Value::Array(values) => values.iter_mut().for_each(|value| damage(value, nth, with)),
        Value::Object(values) => values
            .values_mut()
            .for_each(|value| damage(value, nth, with)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            if *nth == 0 {
                *part = with.clone();
            }
            *nth = nth.wrapping_sub(1);
        }
    }
}

fn values(part: &Value) -> usize {
    match part {
        Value::Array(some) => some.iter().map(values).sum(),
        Value::Object(some) => some.values().map(values).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

fn bad_value() -> impl Strategy<Value = Value> {
    select(vec![
        Value::Null,
        true.into(),
        0.into(),
        1.into(),
        512.into(),
        PAGE.into(),
        (-1).into(),
        MOST.into(),
        "0x0".into(),
        "0x200000".into(),
        "0xffffffffffffffff".into(),
    ])
}

/// Where a checkpoint is damaged, and by what: part, value in it, what is there instead. The part
/// is left out, comes twice, or has that value.
type Damage = (Index, Index, Value, u8);

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let damage = (any::<Index>(), any::<Index>(), bad_value(), 0..8_u8);
    prop::collection::vec(damage, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// No row, however senseless, makes the ledger panic or its totals disagree; and what it
    /// writes down of itself is what it knows.
    #[test]
    fn senseless_rows_are_survived(rows in prop::collection::vec(row(), 0..400)) {
        let ledger = ledger_of(rows);
        assert_consistent(&ledger);
        let mut resumed = Ledger::default();
        for fact in ledger.checkpoint() {
            resume(&mut resumed, &fact);
        }
        prop_assert_eq!(state(&resumed), state(&ledger));
        assert_consistent(&resumed);
    }

    /// Nor does a checkpoint that was tampered with, nor what follows it.
    #[test]
    fn damaged_checkpoints_are_survived(
        before in prop::collection::vec(row(), 0..200),
        damages in damages(),
        after in prop::collection::vec(row(), 0..200),
    ) {
        let mut facts = ledger_of(before).checkpoint();
        for (place, value, with, how) in damages {
            // The first and the last make it one.
            let between = facts.len().saturating_sub(2);
            if between == 0 {
                break;
            }
            let place = 1 + place.index(between);
            let Fact::Checkpoint { part } = &mut facts[place] else { continue };
            if how == 0 {
                facts.remove(place);
            } else if how == 1 {
                let again = facts[place].clone();
                facts.insert(place, again);
            } else {
                let mut nth = value.index(values(part).max(1));
                damage(part, &mut nth, &with);
            }
        }
        let mut ledger = Ledger::default();
        for fact in &facts {
            resume(&mut ledger, fact);
        }
        assert_consistent(&ledger);
        for row in after {
            ledger.apply(&row);
        }
        assert_consistent(&ledger);
    }
}
