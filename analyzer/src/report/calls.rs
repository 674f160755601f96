//! Calls by function, allocation sizes, copies and waits.

use std::collections::BTreeMap;

use agent_common::{ApiId, Effect, Layer, Shape, flags};
use ledger::HostMemory;

use super::capped::Capped;
use super::row::Row;
use super::{Allocations, Calls, Copies, Durations, Waits};
use crate::histogram::{Histogram, Precision};

/// What is gathered of calls with a row.
#[derive(Debug)]
pub(super) struct CallTable {
    /// By [`ApiId`].
    functions: Vec<Option<Function>>,
    allocated: Histogram,
    refused: Histogram,
    /// By place in [`DIRECTIONS`], and in [`HOSTS`].
    copies: [[Option<Direction>; HOSTS.len()]; DIRECTIONS.len()],
    waits: Capped<u32, Histogram>,
}

/// Most processes whose waits are told apart.
const WAITING: usize = 1024;

/// The directions of [`Copies`], by `cudaMemcpyKind`; the last one is unknown.
const DIRECTIONS: [Option<&str>; 6] = [
    Some("host_to_host"),
    Some("host_to_device"),
    Some("device_to_host"),
    Some("device_to_device"),
    Some("default"),
    None,
];

/// What the host's side of a copy may be, in order.
const HOSTS: [Option<HostMemory>; HostMemory::ALL.len() + 1] = {
    let mut hosts = [None; HostMemory::ALL.len() + 1];
    let mut place = 0;
    while place < HostMemory::ALL.len() {
        hosts[place + 1] = Some(HostMemory::ALL[place]);
        place += 1;
    }
    hosts
};

#[derive(Debug)]
struct Function {
    calls: u64,
    seen_in_driver: u64,
    results: u64,
    errors: BTreeMap<i32, u64>,
    bytes: u64,
    durations: Histogram,
}

#[derive(Debug)]
struct Direction {
    copies: u64,
    failed: u64,
    sizes: Histogram,
    durations: Histogram,
}

impl CallTable {
    pub(super) fn new() -> Self {
        Self {
            functions: ApiId::all().map(|_| None).collect(),
            allocated: Histogram::new(Precision::Fine),
            refused: Histogram::new(Precision::Fine),
            copies: Default::default(),
            waits: Capped::new(WAITING),
        }
    }

    /// Takes in a row of kind `call`; of a copy, with what its host side is.
    pub(super) fn call(
        &mut self,
        id: ApiId,
        effect: Effect,
        row: &Row<'_>,
        host: Option<HostMemory>,
    ) {
        let Some(function) = self.functions.get_mut(usize::from(id.0)) else {
            return;
        };
        let function = function.get_or_insert_with(Function::new);
        function.call(row);
        let failed = row.result().is_some_and(|result| result != 0);
        let size = row.size();
        if is_allocation(effect) {
            if let Some(size) = size {
                if failed {
                    self.refused.record(size);
                } else {
                    self.allocated.record(size);
                    function.bytes = function.bytes.saturating_add(size);
                }
            }
        } else if effect == Effect::Copy {
            let kind = row
                .copy_kind()
                .map_or(usize::MAX, usize::from)
                .min(DIRECTIONS.len() - 1);
            let host = host.map_or(0, |host| host as usize + 1);
            let direction = self.copies[kind][host].get_or_insert_with(Direction::new);
            direction.copies += 1;
            direction.failed += u64::from(failed);
            if let Some(size) = size.filter(|_| !failed) {
                direction.sizes.record(size);
                function.bytes = function.bytes.saturating_add(size);
            }
            if let Some(duration) = row.duration() {
                direction.durations.record(duration);
            }
        } else if effect == Effect::Set {
            let set = size.filter(|_| !failed).unwrap_or(0);
            function.bytes = function.bytes.saturating_add(set);
        } else if effect == Effect::Wait {
            if let Some(duration) = row.duration() {
                let waits = self
                    .waits
                    .entry(row.pid(), || Histogram::new(Precision::Fine));
                waits.record(duration);
            }
        } else if effect == Effect::TorchReport {
            let allocated = row.signed_size().unwrap_or(0).max(0).cast_unsigned();
            function.bytes = function.bytes.saturating_add(allocated);
        }
    }

    /// [`super::Report::calls`], [`super::Report::allocations`], [`super::Report::copies`] and
    /// [`super::Report::waits`].
    pub(super) fn finish(self) -> (Vec<Calls>, Allocations, Vec<Copies>, Vec<Waits>) {
        let Self {
            functions,
            allocated,
            refused,
            copies,
            waits,
        } = self;
        let mut calls: Vec<Calls> = ApiId::all()
            .zip(functions)
            .filter_map(|(id, function)| function?.finish(id))
            .collect();
        calls.sort_by_key(|calls| std::cmp::Reverse(calls.calls));
        let allocations = Allocations {
            sizes: allocated.distribution(),
            failed_sizes: refused.distribution(),
        };
        let copies = DIRECTIONS
            .into_iter()
            .zip(copies)
            .flat_map(|(direction, copies)| {
                let copies = HOSTS.into_iter().zip(copies);
                copies.filter_map(move |(host, copies)| Some(copies?.finish(direction, host)))
            })
            .collect();
        let waits = waits
            .into_sorted()
            .into_iter()
            .map(|(pid, waits)| Waits {
                pid,
                waits: waits.count(),
                duration_ns: Durations::of(&waits),
            })
            .collect();
        (calls, allocations, copies, waits)
    }
}

impl Function {
    fn new() -> Self {
        Self {
            calls: 0,
            seen_in_driver: 0,
            results: 0,
            errors: BTreeMap::new(),
            bytes: 0,
            durations: Histogram::new(Precision::Fine),
        }
    }

    fn call(&mut self, row: &Row<'_>) {
        self.calls += 1;
        self.seen_in_driver += u64::from(row.flags() & flags::DRIVER_SEEN != 0);
        if let Some(result) = row.result() {
            self.results += 1;
            if result != 0 {
                *self.errors.entry(result).or_default() += 1;
            }
        }
        if let Some(duration) = row.duration() {
            self.durations.record(duration);
        }
    }

    fn finish(self, id: ApiId) -> Option<Calls> {
        let Self {
            calls,
            seen_in_driver,
            results,
            errors,
            bytes,
            durations,
        } = self;
        let api = id.api()?;
        let has_bytes = is_allocation(api.effect)
            || matches!(api.effect, Effect::Copy | Effect::Set)
            || api.shape == Shape::TorchReport;
        Some(Calls {
            api: api.name,
            layer: api.layer,
            family: api.family.name(),
            calls,
            seen_in_driver: (api.layer == Layer::Runtime && results > 0).then_some(seen_in_driver),
            errors: (results > 0).then_some(errors),
            bytes: has_bytes.then_some(bytes),
            duration_ns: Durations::of(&durations),
        })
    }
}

impl Direction {
    fn new() -> Self {
        Self {
            copies: 0,
            failed: 0,
            sizes: Histogram::new(Precision::Fine),
            durations: Histogram::new(Precision::Fine),
        }
    }

    fn finish(self, direction: Option<&'static str>, host: Option<HostMemory>) -> Copies {
        let Self {
            copies,
            failed,
            sizes,
            durations,
        } = self;
        Copies {
            direction,
            host: host.map(HostMemory::name),
            copies,
            failed,
            bytes: sizes.total(),
            sizes: sizes.distribution(),
            duration_ns: Durations::of(&durations),
        }
    }
}

impl Durations {
    /// `None` where nothing was counted.
    pub(crate) fn of(histogram: &Histogram) -> Option<Self> {
        Some(Self {
            percentiles: histogram.percentiles()?,
            total: histogram.total(),
        })
    }
}

/// Whether calls of this effect take memory.
pub(crate) fn is_allocation(effect: Effect) -> bool {
    matches!(
        effect,
        Effect::DeviceAlloc
            | Effect::ManagedAlloc
            | Effect::HostAlloc
            | Effect::PoolAlloc
            | Effect::ArrayAlloc
            | Effect::PhysicalCreate
    )
}
