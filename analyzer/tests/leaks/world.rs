//! A PyTorch program in virtual time: what it does to memory, and what a recorder would write.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use trace::{Event, Fact, Kind, fact::Caller};

use crate::sample::{self, ENGINE, SECOND, START, Sample};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const MINUTE: u64 = 60 * SECOND;

/// Caller ids.
const ALLOCATOR: u32 = 0;
const LIBRARY: u32 = 1;

/// Numbers that look random and are the same in each run (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From `low` to below `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + (self.unit() * (high - low) as f64) as u64
    }

    /// Time to the next of events that come at random, `mean` apart.
    pub(crate) fn wait(&mut self, mean: u64) -> u64 {
        ((1.0 - self.unit()).ln() * -(mean as f64)) as u64 + 1
    }
}

/// What is not given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leak {
    pub(crate) size: u64,
    /// Mean time between two blocks.
    pub(crate) every: u64,
    /// Whether they come at random; if not, with a jitter of a fifth.
    pub(crate) is_random: bool,
    /// Whether a library takes it from the device by itself.
    pub(crate) is_library: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Block {
    address: u64,
    size: u64,
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) sample: Sample,
    now: u64,
    /// Blocks by when they are given back.
    due: BinaryHeap<Reverse<(u64, Block)>>,
    free: BTreeMap<u64, Vec<u64>>,
    next_address: u64,
    next_segment: u64,
    allocated: u64,
    reserved: u64,
    leak: Option<(Leak, u64)>,
}

impl World {
    pub(crate) fn new(seed: u64, leak: Option<Leak>) -> Self {
        let mut sample = Sample::new();
        sample.fact(
            START,
            ENGINE,
            &sample::process(ENGINE, "VLLM::EngineCore", true),
        );
        for (id, file) in [
            (ALLOCATOR, "/opt/torch/lib/libc10_cuda.so"),
            (LIBRARY, "/opt/nccl/libnccl.so.2"),
        ] {
            let module = Some(file.to_owned());
            sample.fact(START, ENGINE, &Fact::Caller(Caller { id, module }));
        }
        Self {
            random: Random(seed),
            sample,
            now: 0,
            due: BinaryHeap::new(),
            free: BTreeMap::new(),
            next_address: 0x7f00_0000_0000,
            next_segment: 0x7e00_0000_0000,
            allocated: 0,
            reserved: 0,
            leak: leak.map(|leak| (leak, MINUTE)),
        }
    }

    /// ns since the start.
    pub(crate) const fn now(&self) -> u64 {
        self.now
    }

    /// Time goes on; what is due happens.
    pub(crate) fn until(&mut self, moment: u64) {
        loop {
            let freed = self.due.peek().map(|Reverse((at, _))| *at);
            let leaks = self.leak.map(|(_, at)| at);
            let next = [freed, leaks].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= moment) else {
                break;
            };
            self.now = self.now.max(next);
            if freed == Some(next) {
                if let Some(Reverse((_, block))) = self.due.pop() {
                    self.release(block);
                }
            } else if let Some((leak, _)) = self.leak {
                if leak.is_library {
                    self.library(leak.size);
                } else {
                    self.take(leak.size);
                }
                let wait = if leak.is_random {
                    self.random.wait(leak.every)
                } else {
                    let jitter = leak.every / 5;
                    self.random
                        .between(leak.every - jitter, leak.every + jitter)
                };
                self.leak = Some((leak, next + wait));
            }
        }
        self.now = self.now.max(moment);
    }

    /// A random time goes by.
    pub(crate) fn rest(&mut self, mean: u64) {
        let wait = self.random.wait(mean);
        self.until(self.now + wait);
    }

    /// Takes a block from the allocator.
    pub(crate) fn take(&mut self, size: u64) -> Block {
        let size = size.next_multiple_of(512);
        self.allocated += size;
        if self.allocated > self.reserved {
            let segment = (20 * MIB).max(size.next_multiple_of(2 * MIB));
            let address = self.next_segment;
            self.next_segment += segment;
            self.malloc(address, segment, ALLOCATOR);
            self.reserved += segment;
        }
        let known = self.free.get_mut(&size).and_then(Vec::pop);
        let address = known.unwrap_or(self.next_address);
        if known.is_none() {
            self.next_address += size;
        }
        let block = Block { address, size };
        self.report(block, size.cast_signed());
        block
    }

    /// Gives it back.
    pub(crate) fn release(&mut self, block: Block) {
        self.allocated -= block.size;
        self.free.entry(block.size).or_default().push(block.address);
        self.report(block, -block.size.cast_signed());
    }

    /// Takes a block and gives it back after a time.
    pub(crate) fn hold(&mut self, size: u64, time: u64) {
        let block = self.take(size);
        self.due.push(Reverse((self.now + time, block)));
    }

    /// A library takes memory from the device by itself, for good.
    pub(crate) fn library(&mut self, size: u64) {
        let address = self.next_segment;
        self.next_segment += size.next_multiple_of(2 * MIB);
        self.malloc(address, size, LIBRARY);
    }

    /// A library takes memory at an address.
    pub(crate) fn library_at(&mut self, address: u64, size: u64) -> u64 {
        self.malloc(address, size, LIBRARY);
        address
    }

    /// And gives it back.
    pub(crate) fn give_back(&mut self, address: u64) {
        let event = Event {
            address: Some(address),
            ..self.event()
        };
        self.sample.row("cudaFree", Kind::Begin, event.clone());
        self.sample.call("cudaFree", 0, 50_000, event);
    }

    /// The allocator takes a segment, though nobody wants it.
    pub(crate) fn segment(&mut self, size: u64) {
        let address = self.next_segment;
        self.next_segment += size;
        self.malloc(address, size, ALLOCATOR);
        self.reserved += size;
    }

    /// The program asks what is free.
    pub(crate) fn memory_info(&mut self, free: u64, total: u64) {
        let event = Event {
            device_free: Some(free),
            device_total: Some(total),
            ..self.event()
        };
        self.sample.call("cudaMemGetInfo", 0, 5_000, event);
    }

    /// PyTorch gives up.
    pub(crate) fn runs_out(&mut self, size: u64) {
        let event = Event {
            size: Some(size.cast_signed()),
            allocated: Some(self.allocated),
            reserved: Some(self.reserved),
            ..self.event()
        };
        self.sample
            .row("c10::reportOutOfMemoryToProfiler", Kind::Call, event);
    }

    /// The recording.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.sample.end(START + self.now, |_| {});
        self.sample.file()
    }

    /// An event of now.
    pub(crate) fn event(&self) -> Event {
        Event {
            timestamp: START + self.now,
            pid: ENGINE,
            device: Some(0),
            ..Event::default()
        }
    }

    fn malloc(&mut self, address: u64, size: u64, caller: u32) {
        let event = Event {
            address: Some(address),
            size: Some(size.cast_signed()),
            caller: Some(caller),
            ..self.event()
        };
        self.sample.call("cudaMalloc", 0, 90_000, event);
    }

    fn report(&mut self, block: Block, change: i64) {
        let event = Event {
            address: Some(block.address),
            size: Some(change),
            allocated: Some(self.allocated),
            reserved: Some(self.reserved),
            ..self.event()
        };
        self.sample
            .row("c10::reportMemoryUsageToProfiler", Kind::Call, event);
    }
}
