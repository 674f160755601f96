//! Random programs.

use proptest::prelude::*;

use super::oracle::{MIB, Op};

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 1..=MIB,
        3 => MIB..12 * MIB,
        2 => 8 * MIB..60 * MIB,
        1 => Just(MIB),
        1 => Just(10 * MIB),
        1 => Just(256 * MIB),
    ]
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let (device, tid) = (0..2usize, 1..5u32);
    prop_oneof![
        8 => (device.clone(), size(), tid.clone())
            .prop_map(|(device, size, tid)| Op::Malloc { device, size, tid }),
        6 => (any::<usize>(), tid.clone()).prop_map(|(nth, tid)| Op::Free { nth, tid }),
        1 => (device.clone(), tid.clone())
            .prop_map(|(device, tid)| Op::EmptyCache { device, tid }),
        2 => (device, size(), tid.clone())
            .prop_map(|(device, size, tid)| Op::RawMalloc { device, size, tid }),
        2 => (any::<usize>(), tid.clone()).prop_map(|(nth, tid)| Op::RawFree { nth, tid }),
        1 => (any::<usize>(), tid).prop_map(|(nth, tid)| Op::RawFreeFails { nth, tid }),
    ]
}
