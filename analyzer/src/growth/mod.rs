//! How live memory went over time, line by line: what grows, and how.
//!
//! [`Collector`] follows totals (by device, kind of memory, calling file and size class) in bins
//! of which each keeps the least and the most; [`verdict`] judges the shape. Its size is bounded:
//! bins become longer instead of more.

mod collect;
mod cycles;
mod line;
mod lines;
mod series;
mod sleep;
mod text;
mod verdict;

use serde::Serialize;

use crate::findings::{Family, Finding};
use crate::report::{Recording, Report, Window};

pub(crate) use collect::Collector;
pub use sleep::Sleep;
pub use text::write;
pub use verdict::{Cycles, Rate, Shape};

/// Version of the JSON (docs/leaks.md).
pub const SCHEMA: &str = "cudasnoop.leaks/1";

/// What grows.
#[derive(Clone, Debug, Serialize)]
pub struct LeakReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The recording as a whole.
    pub recording: Recording,
    /// What part of it all else is about.
    pub window: Window,
    /// What it means, the most urgent first.
    pub findings: Vec<Finding>,
    /// Every line of memory, those that grow first.
    pub growth: Vec<Growth>,
    /// Stretches in which a program gave physical memory back and kept its addresses.
    pub sleeps: Vec<Sleep>,
}

impl LeakReport {
    /// What a report says of growing memory.
    pub fn of(report: Report) -> Self {
        let is_about = |finding: &Finding| match finding.family {
            Family::Leak | Family::Allocator | Family::Recording => true,
            Family::Fragmentation
            | Family::Oom
            | Family::Transfer
            | Family::Sync
            | Family::Launch
            | Family::Error => false,
        };
        Self {
            schema: SCHEMA,
            recording: report.recording,
            window: report.window,
            findings: report.findings.into_iter().filter(is_about).collect(),
            growth: report.growth,
            sleeps: report.sleeps,
        }
    }
}

/// What memory a [`Growth`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Blocks that PyTorch's caching allocator has handed out.
    Torch,
    /// What that allocator holds of the device, handed out or not.
    TorchReserved,
    /// Device memory that a library took by calls to CUDA.
    Device,
    /// Likewise, of a memory pool.
    Pool,
    /// Likewise, physical memory (`cuMemCreate`).
    Vmm,
    /// Memory that host and device share.
    Managed,
    /// Pinned host memory.
    PinnedHost,
    /// Owned by a graph.
    Graph,
}

impl Source {
    /// The name in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Torch => "torch",
            Self::TorchReserved => "torch_reserved",
            Self::Device => "device",
            Self::Pool => "pool",
            Self::Vmm => "vmm",
            Self::Managed => "managed",
            Self::PinnedHost => "pinned_host",
            Self::Graph => "graph",
        }
    }
}

/// How one line of memory went.
#[derive(Clone, Debug, Serialize)]
pub struct Growth {
    /// Process id.
    pub pid: u32,
    /// Clock ticks after boot when the process started; `None` where not known.
    pub start_time: Option<u64>,
    /// Device ordinal as the process counts; `None` where not known, and for host memory.
    pub device: Option<i32>,
    /// What memory.
    pub source: Source,
    /// The file that took it; `None` where not known, and for PyTorch's blocks.
    pub caller: Option<String>,
    /// Whether PyTorch's caching allocator took it: it counts as PyTorch's, block by block.
    pub is_allocator: bool,
    /// Sizes above this, bytes; `None`: all sizes together.
    pub sizes_above: Option<u64>,
    /// And up to this.
    pub sizes_to: Option<u64>,
    /// Live at the end of the process or the window.
    pub live_bytes: u64,
    /// By how much its highest peak grew after the first quarter of its time.
    pub peak_growth_bytes: u64,
    /// How it went.
    pub shape: Shape,
    /// How fast it grows, where it does.
    pub rate: Option<Rate>,
    /// What each cycle of coming and going leaves behind, where it is the same each time.
    pub cycles: Option<Cycles>,
    /// The device's free bytes at the end, from the program's last question less what it took
    /// since; `None`: it never asked.
    pub free_bytes: Option<u64>,
}

impl Growth {
    /// Whether all sizes are in it.
    pub const fn is_total(&self) -> bool {
        self.sizes_to.is_none()
    }

    /// ns until the device is full, at this rate.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate; a float that is too large for u64 becomes its largest"
    )]
    pub fn until_full_ns(&self) -> Option<u64> {
        let rate = self.rate.filter(|rate| rate.bytes_per_second > 0.0)?;
        let free = self.free_bytes? as f64;
        Some((free / rate.bytes_per_second * 1e9) as u64)
    }
}
