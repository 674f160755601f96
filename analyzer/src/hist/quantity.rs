//! What can be counted in a histogram.

use std::fmt;

use agent_common::Family;
use clap::ValueEnum;
use serde::Serialize;

/// Something that is measured. The names are those of `--of` and of the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Quantity {
    /// What successful allocations by CUDA calls asked for.
    AllocationBytes,
    /// What failed ones asked for.
    FailedAllocationBytes,
    /// Blocks that PyTorch's caching allocator handed out, as it rounds them.
    TorchBlockBytes,
    /// Of memory that was freed: from its allocation's return to the free's entry.
    LifetimeNs,
    /// The same of PyTorch's blocks, from report to report.
    TorchLifetimeNs,
    /// Of memory that is live at the end: how long it has been.
    LiveAgeNs,
    /// The same of PyTorch's blocks.
    TorchLiveAgeNs,
    /// Host time in calls.
    CallNs,
    /// From a thread's launch, of a kernel or a graph, to its next, entry to entry.
    LaunchGapNs,
    /// Blocks of a launched grid.
    GridBlocks,
    /// Threads of a launched block.
    BlockThreads,
    /// Threads of a launch.
    LaunchThreads,
    /// Host time in launches of graphs.
    GraphLaunchNs,
    /// Kernels that a launched graph has, where it was captured.
    GraphLaunchKernels,
    /// Bytes of a copy.
    CopyBytes,
    /// Bytes a second of a copy that the host waited for.
    CopyRate,
}

/// What a quantity is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Ns,
    /// Bytes a second.
    BytesPerSecond,
    /// Blocks of a grid, threads, or kernels.
    Count,
}

impl Quantity {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 16] = [
        Self::AllocationBytes,
        Self::FailedAllocationBytes,
        Self::TorchBlockBytes,
        Self::LifetimeNs,
        Self::TorchLifetimeNs,
        Self::LiveAgeNs,
        Self::TorchLiveAgeNs,
        Self::CallNs,
        Self::LaunchGapNs,
        Self::GridBlocks,
        Self::BlockThreads,
        Self::LaunchThreads,
        Self::GraphLaunchNs,
        Self::GraphLaunchKernels,
        Self::CopyBytes,
        Self::CopyRate,
    ];

    /// What it is counted in.
    pub const fn unit(self) -> Unit {
        match self {
            Self::AllocationBytes
            | Self::FailedAllocationBytes
            | Self::TorchBlockBytes
            | Self::CopyBytes => Unit::Bytes,
            Self::LifetimeNs
            | Self::TorchLifetimeNs
            | Self::LiveAgeNs
            | Self::TorchLiveAgeNs
            | Self::CallNs
            | Self::LaunchGapNs
            | Self::GraphLaunchNs => Unit::Ns,
            Self::GridBlocks
            | Self::BlockThreads
            | Self::LaunchThreads
            | Self::GraphLaunchKernels => Unit::Count,
            Self::CopyRate => Unit::BytesPerSecond,
        }
    }

    /// Whether it is about a kernel.
    pub const fn is_of_kernel(self) -> bool {
        match self {
            Self::LaunchGapNs | Self::GridBlocks | Self::BlockThreads | Self::LaunchThreads => true,
            Self::AllocationBytes
            | Self::FailedAllocationBytes
            | Self::TorchBlockBytes
            | Self::LifetimeNs
            | Self::TorchLifetimeNs
            | Self::LiveAgeNs
            | Self::TorchLiveAgeNs
            | Self::CallNs
            | Self::GraphLaunchNs
            | Self::GraphLaunchKernels
            | Self::CopyBytes
            | Self::CopyRate => false,
        }
    }

    /// The family whose calls it is of, where these may be sampled for the sake of an overhead
    /// budget. Time in calls is of all families.
    pub const fn sampled_with(self) -> Option<Family> {
        match self {
            Self::LaunchGapNs | Self::GridBlocks | Self::BlockThreads | Self::LaunchThreads => {
                Some(Family::Launch)
            }
            Self::CopyBytes | Self::CopyRate => Some(Family::Copy),
            Self::TorchBlockBytes | Self::TorchLifetimeNs | Self::TorchLiveAgeNs => {
                Some(Family::Torch)
            }
            Self::AllocationBytes
            | Self::FailedAllocationBytes
            | Self::LifetimeNs
            | Self::LiveAgeNs => Some(Family::Memory),
            Self::CallNs | Self::GraphLaunchNs | Self::GraphLaunchKernels => None,
        }
    }

    /// As a heading.
    pub const fn title(self) -> &'static str {
        match self {
            Self::AllocationBytes => "Allocation sizes, as CUDA was asked",
            Self::FailedAllocationBytes => "Sizes of allocations that failed",
            Self::TorchBlockBytes => "PyTorch's blocks, as its allocator rounds them",
            Self::LifetimeNs => "Lifetime of memory that was freed",
            Self::TorchLifetimeNs => "Lifetime of PyTorch's blocks that were freed",
            Self::LiveAgeNs => "Age of memory that is live at the end",
            Self::TorchLiveAgeNs => "Age of PyTorch's blocks that are live at the end",
            Self::CallNs => "Time in calls (of the host, probe cost included)",
            Self::LaunchGapNs => "From one launch of a thread to its next",
            Self::GridBlocks => "Blocks per grid",
            Self::BlockThreads => "Threads per block",
            Self::LaunchThreads => "Threads per launch",
            Self::GraphLaunchNs => "Time in graph launches (of the host)",
            Self::GraphLaunchKernels => "Kernels per graph launch",
            Self::CopyBytes => "Copy sizes",
            Self::CopyRate => "Copy rates, of copies that the host waited for",
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The one name that there is.
        match self.to_possible_value() {
            Some(value) => formatter.write_str(value.get_name()),
            None => fmt::Debug::fmt(self, formatter),
        }
    }
}
