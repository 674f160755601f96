//! Drives the stand-in for PyTorch's caching allocator through a known script and says what
//! the allocator held at each checkpoint.

use std::{
    ffi::{CString, c_char},
    path::PathBuf,
};

use clap::Parser;
use serde_json::{Value, json};
use workloads::{
    entries, function_table,
    library::Library,
    options::{CommonOptions, Step},
    report::Report,
    runtime::Runtime,
    tally::{Code, Live, Tally},
};

/// Drives the stand-in for PyTorch's caching allocator. Needs the fake CUDA's `libc10.so`.
#[derive(Clone, Debug, Parser)]
struct Options {
    #[command(flatten)]
    common: CommonOptions,
    /// The stand-in for PyTorch's library.
    #[arg(long, env = "CUDASNOOP_C10", default_value = "libc10.so")]
    c10: PathBuf,
    /// Repetitions of the script.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Ask for more than any device has at the end of each round.
    #[arg(long)]
    out_of_memory: bool,
}

function_table! {
    /// The allocator's C interface.
    Allocator {
        open(*const c_char) -> Code = c"fake_c10_open";
        alloc(usize, *mut u64) -> Code = c"fake_c10_alloc";
        free(u64) -> Code = c"fake_c10_free";
        empty_cache() -> Code = c"fake_c10_empty_cache";
        block_size(u64) -> u64 = c"fake_c10_block_size";
        totals(*mut Totals) -> Code = c"fake_c10_totals";
    }
}

/// What the allocator holds and has done; its own structure.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Totals {
    allocated: u64,
    reserved: u64,
    reports: u64,
    out_of_memory_reports: u64,
    mallocs: u64,
    failed_mallocs: u64,
    frees: u64,
}

/// Requests of one round, bytes: both pools, splits, and segments of their own.
const REQUESTS: [usize; 10] = [
    1,
    512,
    513,
    100_000,
    1 << 20,
    (1 << 20) + 1,
    3_145_851,
    9 << 20,
    11 << 20,
    64 << 20,
];
/// More than any device has, bytes.
const TOO_MUCH: usize = 1 << 45;
/// `cudaErrorMemoryAllocation`
const OUT_OF_MEMORY: Code = 2;

/// The allocator, with the blocks that it gave out and the checkpoints taken so far.
struct Script {
    allocator: Allocator,
    blocks: Vec<u64>,
    checkpoints: Vec<Value>,
}

fn main() {
    let options = Options::parse();
    options.common.wait_at(Step::Load);
    let runtime = Runtime::open(&options.common.cudart);
    let allocator = Allocator::find(&Library::open(&options.c10));
    let cudart = options.common.cudart.as_os_str().as_encoded_bytes();
    let cudart = CString::new(cudart).expect("a path has no NUL");
    // SAFETY: a string.
    let code = unsafe { (allocator.open)(cudart.as_ptr()) };
    assert_eq!(
        code,
        0,
        "{} opened {cudart:?} before",
        options.c10.display()
    );
    options.common.wait_at(Step::Call);

    let mut script = Script {
        allocator,
        blocks: Vec::new(),
        checkpoints: Vec::new(),
    };
    for _ in 0..options.rounds {
        script.round(options.out_of_memory);
    }
    let totals = script.totals();
    let mut tally = Tally::new();
    tally.calls("cudaMalloc", totals.mallocs);
    tally.calls("cudaFree", totals.frees);
    if totals.failed_mallocs > 0 {
        let failed = tally.errors.entry("cudaMalloc").or_default();
        failed.insert(OUT_OF_MEMORY, totals.failed_mallocs);
    }
    let live = Live::default();
    live.grow(totals.reserved);
    let entries = entries::of_process([&runtime]);
    let mut report = Report::new("torch", runtime.is_fake(), &tally, &live, entries);
    report.peak_bytes = script
        .checkpoints
        .iter()
        .filter_map(|point| point["reserved"].as_u64())
        .max()
        .unwrap_or(0);
    report
        .with(
            "torch_calls",
            json!({
                "c10::reportMemoryUsageToProfiler": totals.reports,
                "c10::reportOutOfMemoryToProfiler": totals.out_of_memory_reports,
            }),
        )
        .with("checkpoints", script.checkpoints)
        .print();
    options.common.wait_at(Step::Exit);
}

impl Script {
    /// One round: allocate all, free every other one, allocate into the holes, run out of
    /// memory if asked, free all, empty the cache.
    fn round(&mut self, out_of_memory: bool) {
        self.checkpoint("start");
        for size in REQUESTS {
            self.allocate(size);
        }
        self.checkpoint("allocated");
        for at in (0..self.blocks.len()).rev().step_by(2) {
            let block = self.blocks.remove(at);
            self.free(block);
        }
        self.checkpoint("every other block freed");
        for size in REQUESTS.into_iter().filter(|size| *size <= 4 << 20) {
            self.allocate(size);
        }
        self.checkpoint("holes filled");
        if out_of_memory {
            let mut address = 0;
            // SAFETY: a pointer to a local.
            let code = unsafe { (self.allocator.alloc)(TOO_MUCH, &raw mut address) };
            assert_eq!(code, OUT_OF_MEMORY, "no device has so much");
            self.checkpoint("out of memory");
        }
        for block in std::mem::take(&mut self.blocks) {
            self.free(block);
        }
        self.checkpoint("all freed");
        // SAFETY: no pointers.
        let code = unsafe { (self.allocator.empty_cache)() };
        assert_eq!(code, 0, "segments can be given back");
        self.checkpoint("cache emptied");
    }

    fn allocate(&mut self, size: usize) {
        let mut address = 0;
        // SAFETY: a pointer to a local.
        let code = unsafe { (self.allocator.alloc)(size, &raw mut address) };
        assert_eq!(code, 0, "the device has room for the script");
        self.blocks.push(address);
    }

    fn free(&mut self, block: u64) {
        // SAFETY: a device address is only a number.
        let code = unsafe { (self.allocator.free)(block) };
        assert_eq!(code, 0, "the block is live");
    }

    fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        // SAFETY: a pointer to a local of the allocator's own layout.
        let code = unsafe { (self.allocator.totals)(&raw mut totals) };
        assert_eq!(code, 0, "it is open");
        totals
    }

    /// Notes what is held now. `monotonic_ns` is `CLOCK_MONOTONIC` after the last report;
    /// addresses are hexadecimal text.
    fn checkpoint(&mut self, label: &str) {
        let Totals {
            allocated,
            reserved,
            reports,
            out_of_memory_reports,
            ..
        } = self.totals();
        let blocks: Vec<Value> = self
            .blocks
            .iter()
            .map(|block| {
                // SAFETY: no pointers.
                let size = unsafe { (self.allocator.block_size)(*block) };
                json!({ "address": format!("{block:#x}"), "size": size })
            })
            .collect();
        self.checkpoints.push(json!({
            "label": label,
            "monotonic_ns": monotonic_ns(),
            "allocated": allocated,
            "reserved": reserved,
            "reports": reports,
            "out_of_memory_reports": out_of_memory_reports,
            "blocks": blocks,
        }));
    }
}

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a pointer to a local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
