//! What processes hold on devices, as series.

use std::{collections::BTreeMap, sync::Arc};

use ledger::{CachingAllocator, Device, MemoryKind};
use trace::fact;

use super::{
    lanes::Lanes,
    limits::{DEVICES, OTHER},
    memory::MemoryBooks,
};
use crate::serve::metrics::{Metric, Samples, Text};

/// A device as its labels have it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    process: Arc<str>,
    gpu: Text,
    uuid: Text,
}

/// Bytes on a device.
#[derive(Debug, Default)]
struct Bytes {
    by_kind: [Option<u64>; MemoryKind::ALL.len()],
    held: u64,
    waste: u64,
    peak: u64,
    unattributed: Option<u64>,
    torch: Option<Torch>,
}

#[derive(Debug, Default)]
struct Torch {
    allocated: u64,
    reserved: u64,
    largest_free: u64,
    blocks_are_unknown: bool,
}

pub(super) fn collect(memory: &MemoryBooks, lanes: &Lanes, samples: &mut Samples) {
    let mut places: BTreeMap<Place, Bytes> = BTreeMap::new();
    for process in memory.collector.ledger().live() {
        let pid = process.key().pid;
        let label = lanes.label(pid);
        let ordinals = process.devices().keys().copied();
        let torch = process.allocators().keys().copied().map(Some);
        let mut ordinals: Vec<Option<i32>> = ordinals.chain(torch).collect();
        ordinals.sort_unstable();
        ordinals.dedup();
        for ordinal in ordinals {
            let (gpu, uuid) = name(ordinal, process.info(), |ordinal| {
                memory.collector.uuid(pid, ordinal)
            });
            let mut place = Place {
                process: Arc::clone(label),
                gpu,
                uuid,
            };
            if places.len() >= DEVICES && !places.contains_key(&place) {
                place = Place {
                    process: OTHER.into(),
                    gpu: OTHER.into(),
                    uuid: "".into(),
                };
            }
            let bytes = places.entry(place).or_default();
            if let Some(device) = process.devices().get(&ordinal)
                && process.knows_memory()
            {
                bytes.add(device);
            }
            if let Some(allocator) = ordinal.and_then(|key| process.allocators().get(&key)) {
                bytes.add_torch(allocator);
            }
        }
    }
    for (place, bytes) in places {
        bytes.write(&place, samples);
    }
}

impl Bytes {
    fn add(&mut self, device: &Device) {
        for kind in MemoryKind::ALL {
            let live = device.of_kind(kind);
            let is_used = live.bytes > 0 || device.at_peak(kind) > 0;
            if is_used || kind == MemoryKind::Device {
                let sum = self.by_kind[kind as usize].get_or_insert(0);
                *sum = sum.saturating_add(live.bytes);
            }
        }
        self.held = self.held.saturating_add(device.held_bytes());
        self.waste = self.waste.saturating_add(device.waste_bytes());
        self.peak = self.peak.saturating_add(device.peak().bytes);
        let unattributed = device.reading().and_then(|reading| reading.unattributed());
        if let Some(bytes) = unattributed {
            let sum = self.unattributed.get_or_insert(0);
            *sum = sum.saturating_add(bytes);
        }
    }

    fn add_torch(&mut self, allocator: &CachingAllocator) {
        let torch = self.torch.get_or_insert_default();
        torch.allocated = torch.allocated.saturating_add(allocator.allocated());
        torch.reserved = torch.reserved.saturating_add(allocator.reserved());
        if allocator.is_sampled() {
            torch.blocks_are_unknown = true;
        }
        torch.largest_free = torch.largest_free.max(allocator.largest_free());
    }

    fn write(self, place: &Place, samples: &mut Samples) {
        let Self {
            by_kind,
            held,
            waste,
            peak,
            unattributed,
            torch,
        } = self;
        let process = || Text::from(&place.process);
        let labels = || vec![process(), place.gpu.clone(), place.uuid.clone()];
        for (kind, bytes) in MemoryKind::ALL.into_iter().zip(by_kind) {
            if let Some(bytes) = bytes {
                let mut labels = labels();
                labels.insert(1, kind.name().into());
                samples.count(Metric::MemoryLive, labels, bytes);
            }
        }
        // Where nothing tells of the driver's memory, there is no series in place of a 0.
        if by_kind[MemoryKind::Device as usize].is_some() {
            samples.count(Metric::MemoryHeld, labels(), held);
            samples.count(Metric::MemoryWaste, labels(), waste);
            samples.count(Metric::MemoryPeak, labels(), peak);
        }
        if let Some(bytes) = unattributed {
            samples.count(Metric::MemoryUnattributed, labels(), bytes);
        }
        if let Some(Torch {
            allocated,
            reserved,
            largest_free,
            blocks_are_unknown,
        }) = torch
        {
            samples.count(Metric::TorchAllocated, labels(), allocated);
            samples.count(Metric::TorchReserved, labels(), reserved);
            if !blocks_are_unknown {
                samples.count(Metric::TorchLargestFree, labels(), largest_free);
            }
        }
    }
}

/// Bytes of `GPU-` and a UUID.
const UUID_LENGTH: usize = 40;

/// The labels `gpu` and `UUID`: of what the program told, and of `CUDA_VISIBLE_DEVICES`, which says
/// which device a process's ordinal means.
fn name<'a>(
    ordinal: Option<i32>,
    process: Option<&fact::Process>,
    uuid: impl Fn(i32) -> Option<&'a str>,
) -> (Text, Text) {
    let Some(ordinal) = ordinal else {
        return ("".into(), "".into());
    };
    let visible = process.and_then(|process| process.visible_devices.as_deref());
    let entry = usize::try_from(ordinal)
        .ok()
        .and_then(|index| visible?.split(',').nth(index))
        .map(str::trim);
    let number = entry.and_then(|entry| entry.parse::<u32>().ok());
    let gpu = number.map_or_else(|| ordinal.to_string(), |number| number.to_string());
    let is_uuid = |entry: &&str| {
        entry.len() == UUID_LENGTH
            && entry.starts_with("GPU-")
            && entry.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let uuid = uuid(ordinal).or_else(|| entry.filter(is_uuid));
    (gpu.into(), uuid.unwrap_or_default().to_owned().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(ordinal: i32, visible: Option<&str>, told: Option<&str>) -> (String, String) {
        let process = fact::Process {
            pid: 1,
            namespace_pid: 1,
            start_time: 0,
            parent: 0,
            exe: String::new(),
            title: String::new(),
            command: String::new(),
            from_start: true,
            visible_devices: visible.map(str::to_owned),
            container: None,
            pod_uid: None,
            entry_only: None,
        };
        let (gpu, uuid) = name(Some(ordinal), Some(&process), |_| told);
        (gpu.to_string(), uuid.to_string())
    }

    #[test]
    fn a_device_has_the_number_that_the_machine_gives_it() {
        const UUID: &str = "GPU-5fd4f087-86f3-7a43-b711-4771313afc50";
        let pair = |gpu: &str, uuid: &str| (gpu.to_owned(), uuid.to_owned());
        assert_eq!(named(1, None, None), pair("1", ""));
        assert_eq!(named(0, Some("3,5"), Some(UUID)), pair("3", UUID));
        assert_eq!(named(1, Some("3, 5"), None), pair("5", ""));
        assert_eq!(named(0, Some(UUID), None), pair("0", UUID));
        // Shortened, or nonsense: not taken for more than it is.
        assert_eq!(named(0, Some("GPU-5fd4"), None), pair("0", ""));
        assert_eq!(named(7, Some("3,5"), None), pair("7", ""));
    }
}
