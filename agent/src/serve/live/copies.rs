//! Bytes of copies, by direction and by what the host's side is.

use ledger::{HostMemory, Process};
use trace::Event;

use super::{limits::UNKNOWN, sampled::scaled};

/// By `cudaMemcpyKind` (`driver_types.h`); the last for all that is none.
const DIRECTIONS: [&str; 6] = [
    "host_to_host",
    "host_to_device",
    "device_to_host",
    "device_to_device",
    "default",
    UNKNOWN,
];

const HOST_TO_DEVICE: u8 = 1;
const DEVICE_TO_HOST: u8 = 2;
const DEVICE_TO_DEVICE: u8 = 3;

/// By [`HostMemory`]; the last for copies without a host's side.
const HOSTS: usize = HostMemory::ALL.len() + 1;

/// Bytes that were copied.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies([[u64; HOSTS]; DIRECTIONS.len()]);

impl Copies {
    /// A copy that succeeded; `process` holds the host's memory, where that is known.
    pub(super) fn add(&mut self, event: &Event, process: Option<&Process>) {
        let Some(bytes) = event.size.and_then(|size| u64::try_from(size).ok()) else {
            return;
        };
        let host_side = match event.copy_kind {
            Some(HOST_TO_DEVICE) => Some(event.source),
            Some(DEVICE_TO_HOST) => Some(event.address),
            Some(DEVICE_TO_DEVICE) => None,
            // From host to host, or not known: it has one, or may.
            Some(_) | None => Some(None),
        };
        let host = match host_side {
            None => HOSTS - 1,
            Some(address) => {
                let process = process.zip(address);
                let memory = process.map(|(process, at)| process.host_memory(at, bytes));
                memory.unwrap_or(HostMemory::Unknown) as usize
            }
        };
        let direction = event.copy_kind.map_or(DIRECTIONS.len() - 1, usize::from);
        let direction = direction.min(DIRECTIONS.len() - 1);
        let sum = &mut self.0[direction][host];
        *sum = sum.saturating_add(bytes);
    }

    /// Adds other bytes, each of which stands for `weight` bytes.
    pub(super) fn merge(&mut self, other: &Self, weight: f64) {
        for (sums, more) in self.0.iter_mut().zip(&other.0) {
            for (sum, more) in sums.iter_mut().zip(more) {
                *sum = sum.saturating_add(scaled(*more, weight));
            }
        }
    }

    /// Direction, host memory, bytes; without those that there were none of.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        DIRECTIONS
            .into_iter()
            .zip(self.0)
            .flat_map(|(direction, hosts)| {
                let names = HostMemory::ALL.map(HostMemory::name).into_iter();
                names
                    .chain(["none"])
                    .zip(hosts)
                    .filter(|(_, bytes)| *bytes > 0)
                    .map(move |(host, bytes)| (direction, host, bytes))
            })
    }
}
