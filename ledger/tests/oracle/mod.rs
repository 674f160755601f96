//! A small model of a GPU driver and of PyTorch's caching allocator that emits the events
//! which a recording of the real ones has. It keeps its own, naive books: lists, searched from
//! end to end. It shares no code with the ledger.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeSet;

use agent_common::{ApiId, flags};
use trace::{Event, Fact, Kind, fact};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const PAGE: u64 = 2 * MIB;
pub(crate) const PID: u32 = 100;

/// Where recorded events go.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) events: Vec<Event>,
    clock: u64,
}

impl Recorder {
    fn push(&mut self, tid: u32, event: Event) {
        self.clock += 1000;
        self.events.push(Event {
            seq: self.events.len() as u64,
            timestamp: self.clock,
            pid: PID,
            tid,
            ..event
        });
    }

    /// A fact about the process; it comes first or wherever the test wants it.
    pub(crate) fn fact(&mut self, fact: &Fact) {
        self.push(
            PID,
            Event {
                kind: Kind::Fact,
                text: Some(fact.to_text()),
                ..Event::default()
            },
        );
    }

    fn returned(api: &str, device: i32, result: i32) -> Event {
        Event {
            kind: Kind::Call,
            api: ApiId::by_name(api),
            duration: Some(500),
            result: Some(result),
            device: Some(device),
            flags: flags::RETURNED,
            ..Event::default()
        }
    }

    pub(crate) fn alloc(&mut self, tid: u32, device: i32, size: u64, address: Option<u64>) {
        let result = if address.is_some() { 0 } else { 2 };
        self.push(
            tid,
            Event {
                address,
                size: Some(size.cast_signed()),
                ..Self::returned("cudaMalloc", device, result)
            },
        );
    }

    pub(crate) fn free_begins(&mut self, tid: u32, address: u64) {
        self.push(
            tid,
            Event {
                kind: Kind::Begin,
                api: ApiId::by_name("cudaFree"),
                address: Some(address),
                ..Event::default()
            },
        );
    }

    pub(crate) fn free_returns(&mut self, tid: u32, address: u64, result: i32) {
        self.push(
            tid,
            Event {
                address: Some(address),
                ..Self::returned("cudaFree", 0, result)
            },
        );
    }

    pub(crate) fn free(&mut self, tid: u32, address: u64) {
        self.free_begins(tid, address);
        self.free_returns(tid, address, 0);
    }

    pub(crate) fn memory_info(&mut self, tid: u32, device: i32, free: u64, total: u64) {
        self.push(
            tid,
            Event {
                device_free: Some(free),
                device_total: Some(total),
                ..Self::returned("cudaMemGetInfo", device, 0)
            },
        );
    }

    pub(crate) fn report(
        &mut self,
        tid: u32,
        device: i32,
        address: u64,
        size: i64,
        totals: (u64, u64),
    ) {
        self.push(
            tid,
            Event {
                kind: Kind::Call,
                api: ApiId::by_name("c10::reportMemoryUsageToProfiler"),
                device: Some(device),
                address: Some(address),
                size: Some(size),
                allocated: Some(totals.0),
                reserved: Some(totals.1),
                ..Event::default()
            },
        );
    }

    pub(crate) fn out_of_memory(&mut self, tid: u32, device: i32, size: u64, totals: (u64, u64)) {
        self.push(
            tid,
            Event {
                kind: Kind::Call,
                api: ApiId::by_name("c10::reportOutOfMemoryToProfiler"),
                device: Some(device),
                size: Some(size.cast_signed()),
                allocated: Some(totals.0),
                reserved: Some(totals.1),
                ..Event::default()
            },
        );
    }
}

/// The fact that introduces the process.
pub(crate) fn introduction(from_start: bool) -> Fact {
    Fact::Process(fact::Process {
        pid: PID,
        namespace_pid: 1,
        start_time: 77,
        parent: 1,
        exe: "/usr/bin/python3".to_owned(),
        title: "VLLM::EngineCore".to_owned(),
        command: "python3 train.py".to_owned(),
        from_start,
        visible_devices: None,
        container: None,
        pod_uid: None,
        entry_only: None,
    })
}

/// A device: hands out addresses as measured on an H100. Sizes up to 1 MiB share 2 MiB
/// pages, larger ones get pages of their own; the lowest address that fits is used, so that
/// addresses come back at once.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) ordinal: i32,
    base: u64,
    pub(crate) capacity: u64,
    /// Live allocations: address and size.
    pub(crate) live: Vec<(u64, u64)>,
}

impl Gpu {
    pub(crate) fn new(ordinal: i32, capacity: u64) -> Self {
        let base = 0x7f00_0000_0000 + (u64::from(ordinal.unsigned_abs()) << 36);
        Self {
            ordinal,
            base,
            capacity,
            live: Vec::new(),
        }
    }

    fn pages(&self) -> BTreeSet<u64> {
        self.live
            .iter()
            .flat_map(|&(address, size)| address / PAGE..=(address + size - 1) / PAGE)
            .collect()
    }

    pub(crate) fn held(&self) -> u64 {
        self.pages().len() as u64 * PAGE
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live.iter().map(|&(_, size)| size).sum()
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.capacity - self.held()
    }

    fn is_free(&self, address: u64, size: u64) -> bool {
        self.live
            .iter()
            .all(|&(start, len)| address + size <= start || start + len <= address)
    }

    pub(crate) fn malloc(&mut self, size: u64) -> Option<u64> {
        let (step, span) = if size <= MIB {
            (512, size)
        } else {
            (PAGE, size.next_multiple_of(PAGE))
        };
        // Candidates: the base, and the end of each allocation, rounded up to the step.
        let mut candidates: Vec<u64> = vec![self.base];
        for &(start, len) in &self.live {
            let end = (start + len).next_multiple_of(512);
            candidates.push(end.next_multiple_of(step));
            candidates.push(end.next_multiple_of(PAGE));
        }
        candidates.sort_unstable();
        let small_pages: BTreeSet<u64> = self
            .live
            .iter()
            .filter(|&&(_, len)| len <= MIB)
            .map(|&(start, _)| start / PAGE)
            .collect();
        let large_pages: BTreeSet<u64> = self
            .live
            .iter()
            .filter(|&&(_, len)| len > MIB)
            .flat_map(|&(start, len)| start / PAGE..=(start + len - 1) / PAGE)
            .collect();
        let address = candidates.into_iter().find(|&address| {
            let (first, last) = (address / PAGE, (address + span - 1) / PAGE);
            let pages_fit = if size <= MIB {
                first == last && !large_pages.contains(&first)
            } else {
                (first..=last).all(|page| !small_pages.contains(&page))
            };
            pages_fit && self.is_free(address, span)
        })?;
        self.live.push((address, size));
        if self.held() > self.capacity {
            self.live.pop();
            return None;
        }
        Some(address)
    }

    pub(crate) fn free(&mut self, address: u64) {
        let index = self
            .live
            .iter()
            .position(|&(start, _)| start == address)
            .unwrap();
        self.live.swap_remove(index);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModelBlock {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) allocated: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ModelSegment {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) small: bool,
    /// All its blocks, allocated and free, by address, without holes.
    pub(crate) blocks: Vec<ModelBlock>,
}

/// PyTorch's caching allocator on one device, one stream, default settings: after
/// `DeviceCachingAllocator` of c10/cuda/CUDACachingAllocator.cpp.
#[derive(Debug, Default)]
pub(crate) struct Torch {
    pub(crate) segments: Vec<ModelSegment>,
}

impl Torch {
    pub(crate) fn allocated(&self) -> u64 {
        self.blocks()
            .filter(|block| block.allocated)
            .map(|block| block.size)
            .sum()
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.segments.iter().map(|segment| segment.size).sum()
    }

    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.allocated(), self.reserved())
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = &ModelBlock> {
        self.segments.iter().flat_map(|segment| &segment.blocks)
    }

    /// Address and size of every allocated block, by address.
    pub(crate) fn active(&self) -> Vec<(u64, u64)> {
        let mut active: Vec<(u64, u64)> = self
            .blocks()
            .filter(|block| block.allocated)
            .map(|block| (block.address, block.size))
            .collect();
        active.sort_unstable();
        active
    }

    pub(crate) fn largest_free(&self, small: bool) -> u64 {
        self.segments
            .iter()
            .filter(|segment| segment.small == small)
            .flat_map(|segment| &segment.blocks)
            .filter(|block| !block.allocated)
            .map(|block| block.size)
            .max()
            .unwrap_or(0)
    }

    /// Where the smallest sufficient free block is: segment and block index.
    fn best_fit(&self, small: bool, size: u64) -> Option<(usize, usize)> {
        let mut best: Option<(u64, u64, usize, usize)> = None;
        for (s, segment) in self.segments.iter().enumerate() {
            for (b, block) in segment.blocks.iter().enumerate() {
                if segment.small == small && !block.allocated && block.size >= size {
                    let key = (block.size, block.address, s, b);
                    if best.is_none_or(|best| key < best) {
                        best = Some(key);
                    }
                }
            }
        }
        best.map(|(_, _, s, b)| (s, b))
    }

    /// `malloc`: the address, or `None` when memory ran out.
    pub(crate) fn malloc(
        &mut self,
        gpu: &mut Gpu,
        recorder: &mut Recorder,
        tid: u32,
        size: u64,
    ) -> Option<u64> {
        let size = size.max(1).div_ceil(512) * 512;
        let small = size <= MIB;
        let mut found = self.best_fit(small, size);
        if found.is_none() {
            let wanted = match size {
                ..=1_048_576 => 2 * MIB,
                1_048_577..10_485_760 => 20 * MIB,
                _ => size.div_ceil(2 * MIB) * 2 * MIB,
            };
            let mut address = gpu.malloc(wanted);
            recorder.alloc(tid, gpu.ordinal, wanted, address);
            if address.is_none() {
                self.empty_cache(gpu, recorder, tid);
                address = gpu.malloc(wanted);
                recorder.alloc(tid, gpu.ordinal, wanted, address);
            }
            if let Some(address) = address {
                self.segments.push(ModelSegment {
                    address,
                    size: wanted,
                    small,
                    blocks: vec![ModelBlock {
                        address,
                        size: wanted,
                        allocated: false,
                    }],
                });
                found = Some((self.segments.len() - 1, 0));
            }
        }
        let Some((s, b)) = found else {
            recorder.memory_info(tid, gpu.ordinal, gpu.free_bytes(), gpu.capacity);
            recorder.out_of_memory(tid, gpu.ordinal, size, self.totals());
            return None;
        };
        let blocks = &mut self.segments[s].blocks;
        let block = blocks[b];
        let remainder = block.size - size;
        let split = if small {
            remainder >= 512
        } else {
            remainder > MIB
        };
        let taken = if split { size } else { block.size };
        blocks[b] = ModelBlock {
            size: taken,
            allocated: true,
            ..block
        };
        if split {
            let address = block.address + size;
            blocks.insert(
                b + 1,
                ModelBlock {
                    address,
                    size: remainder,
                    allocated: false,
                },
            );
        }
        recorder.report(
            tid,
            gpu.ordinal,
            block.address,
            taken.cast_signed(),
            self.totals(),
        );
        Some(block.address)
    }

    pub(crate) fn free(&mut self, gpu: &Gpu, recorder: &mut Recorder, tid: u32, address: u64) {
        let segment = self
            .segments
            .iter_mut()
            .find(|segment| segment.address <= address && address < segment.address + segment.size)
            .unwrap();
        let b = segment
            .blocks
            .iter()
            .position(|block| block.address == address)
            .unwrap();
        let size = segment.blocks[b].size;
        segment.blocks[b].allocated = false;
        let mut merged: Vec<ModelBlock> = Vec::new();
        for &block in &segment.blocks {
            match merged.last_mut() {
                Some(last) if !last.allocated && !block.allocated => last.size += block.size,
                Some(_) | None => merged.push(block),
            }
        }
        segment.blocks = merged;
        recorder.report(
            tid,
            gpu.ordinal,
            address,
            -size.cast_signed(),
            self.totals(),
        );
    }

    /// `empty_cache`: gives back every wholly free segment.
    pub(crate) fn empty_cache(&mut self, gpu: &mut Gpu, recorder: &mut Recorder, tid: u32) {
        self.segments.retain(|segment| {
            let used = segment.blocks.iter().any(|block| block.allocated);
            if !used {
                recorder.free(tid, segment.address);
                gpu.free(segment.address);
            }
            used
        });
    }
}

/// What a program does with two devices.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// A tensor of so many bytes on a device.
    Malloc {
        device: usize,
        size: u64,
        tid: u32,
    },
    /// Drops a tensor: the n-th live one, modulo their number.
    Free {
        nth: usize,
        tid: u32,
    },
    EmptyCache {
        device: usize,
        tid: u32,
    },
    /// A library allocates past PyTorch.
    RawMalloc {
        device: usize,
        size: u64,
        tid: u32,
    },
    RawFree {
        nth: usize,
        tid: u32,
    },
    /// A free that fails.
    RawFreeFails {
        nth: usize,
        tid: u32,
    },
}

/// A process that runs [`Op`]s.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) recorder: Recorder,
    pub(crate) gpus: [Gpu; 2],
    pub(crate) torch: [Torch; 2],
    tensors: Vec<(usize, u64)>,
    raw: Vec<(usize, u64)>,
}

impl Program {
    pub(crate) fn new(capacity: u64) -> Self {
        let mut recorder = Recorder::default();
        recorder.fact(&introduction(true));
        Self {
            recorder,
            gpus: [Gpu::new(0, capacity), Gpu::new(1, capacity)],
            torch: [Torch::default(), Torch::default()],
            tensors: Vec::new(),
            raw: Vec::new(),
        }
    }

    pub(crate) fn run(&mut self, op: Op) {
        let recorder = &mut self.recorder;
        match op {
            Op::Malloc { device, size, tid } => {
                let gpu = &mut self.gpus[device];
                let address = self.torch[device].malloc(gpu, recorder, tid, size);
                self.tensors
                    .extend(address.map(|address| (device, address)));
            }
            Op::Free { nth, tid } => {
                if !self.tensors.is_empty() {
                    let (device, address) = self.tensors.swap_remove(nth % self.tensors.len());
                    self.torch[device].free(&self.gpus[device], recorder, tid, address);
                }
            }
            Op::EmptyCache { device, tid } => {
                self.torch[device].empty_cache(&mut self.gpus[device], recorder, tid);
            }
            Op::RawMalloc { device, size, tid } => {
                let address = self.gpus[device].malloc(size);
                recorder.alloc(tid, self.gpus[device].ordinal, size, address);
                self.raw.extend(address.map(|address| (device, address)));
            }
            Op::RawFree { nth, tid } => {
                if !self.raw.is_empty() {
                    let (device, address) = self.raw.swap_remove(nth % self.raw.len());
                    recorder.free(tid, address);
                    self.gpus[device].free(address);
                }
            }
            Op::RawFreeFails { nth, tid } => {
                if !self.raw.is_empty() {
                    let (_, address) = self.raw[nth % self.raw.len()];
                    recorder.free_begins(tid, address);
                    recorder.free_returns(tid, address, 700);
                }
            }
        }
    }
}
