//! PyTorch's caching allocator, from outside: libc10 calls these two on every allocation and
//! free, profiler or not.

use crate::api::{Api, Effect, Family, Layer, Probe, Shape};

pub(super) const ROWS: [Api; 2] = [
    torch(
        "c10::reportMemoryUsageToProfiler",
        &["_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"],
        Shape::TorchReport,
    )
    .doc("PyTorch allocated or freed a block; with its totals"),
    torch(
        "c10::reportOutOfMemoryToProfiler",
        &["_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"],
        Shape::TorchOutOfMemory,
    )
    .doc("PyTorch ran out of memory; with its totals"),
];

const fn torch(name: &'static str, symbols: &'static [&'static str], shape: Shape) -> Api {
    Api {
        name,
        ..super::row(
            Layer::Torch,
            symbols,
            Family::Torch,
            Effect::TorchReport,
            &[],
        )
    }
    .shape(shape)
    .probe(Probe::Entry)
    .core()
}
