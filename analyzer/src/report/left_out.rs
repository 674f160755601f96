//! What a report leaves out, since there was more of it than is kept.

use serde::Serialize;

use crate::text::count;

/// Things of which no more than a limit are kept: a file with a new process, caller or size in each
/// row must not take all memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// Live processes whose memory is followed.
    MemoryProcesses,
    /// Live blocks, arrays, reservations and mappings of a process.
    MemoryBlocks,
    /// Pools, graphs that own memory, and contexts of a process.
    MemoryObjects,
    /// Live blocks of PyTorch's allocator on a device of a process.
    TorchBlocks,
    /// Processes that ended.
    EndedProcesses,
    /// Times that PyTorch ran out of memory on a device of a process.
    OutOfMemory,
    /// The same, of all processes that ended together.
    EndedOutOfMemory,
    /// Lines of memory that are followed over time.
    GrowthLines,
    /// Lines of processes that ended.
    EndedGrowthLines,
    /// Call sites whose file a line of memory is named by.
    GrowthCallers,
    /// Sleeps, and processes that are in one.
    Sleeps,
    /// Processes whose calls are looked at for failures.
    FailingProcesses,
    /// Codes of failures of a process.
    ErrorCodes,
    /// Allocations of a process that found no memory, and wait for what its thread does next.
    OpenRefusals,
    /// Kernels of a function.
    Kernels,
    /// Graphs whose kernels are counted.
    Graphs,
    /// Calls that did not return.
    AbandonedCalls,
}

/// How much of one thing is kept, and how much more there was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// What is kept.
    pub what: Kept,
    /// How many.
    pub limit: u64,
    /// What came beyond that, in the unit of docs/report.md.
    pub left_out: u64,
}

impl LeftOut {
    /// `None` where nothing was left out.
    pub(crate) fn of(what: Kept, limit: usize, left_out: u64) -> Option<Self> {
        (left_out > 0).then_some(Self {
            what,
            limit: limit as u64,
            left_out,
        })
    }

    /// As a person reads it.
    pub(crate) fn sentence(self) -> String {
        let (kept, beyond) = self.counted();
        let (limit, more) = (count(self.limit), count(self.left_out));
        format!("{limit} {kept}; {more} {beyond}")
    }

    /// The key of the number in the finding.
    pub(crate) const fn key(self) -> &'static str {
        match self.what {
            Kept::MemoryProcesses => "memory_processes",
            Kept::MemoryBlocks => "memory_blocks",
            Kept::MemoryObjects => "memory_objects",
            Kept::TorchBlocks => "torch_blocks",
            Kept::EndedProcesses => "ended_processes",
            Kept::OutOfMemory => "out_of_memory",
            Kept::EndedOutOfMemory => "ended_out_of_memory",
            Kept::GrowthLines => "growth_lines",
            Kept::EndedGrowthLines => "ended_growth_lines",
            Kept::GrowthCallers => "growth_callers",
            Kept::Sleeps => "sleeps",
            Kept::FailingProcesses => "failing_processes",
            Kept::ErrorCodes => "error_codes",
            Kept::OpenRefusals => "open_refusals",
            Kept::Kernels => "kernels",
            Kept::Graphs => "graphs",
            Kept::AbandonedCalls => "abandoned_calls",
        }
    }

    /// What is kept, of what, and what the count counts.
    const fn counted(self) -> (&'static str, &'static str) {
        match self.what {
            Kept::MemoryProcesses => (
                "live processes have their memory followed",
                "events of others are in no total",
            ),
            Kept::MemoryBlocks => (
                "blocks and mappings of a process are followed",
                "others are in no total",
            ),
            Kept::MemoryObjects => (
                "pools, graphs and contexts of a process are followed",
                "others are not told apart",
            ),
            Kept::TorchBlocks => (
                "blocks of PyTorch's allocator are followed on a device of a process",
                "others are in no map",
            ),
            Kept::EndedProcesses => (
                "processes that ended are kept",
                "others are not in `memory`, or lack what PyTorch held",
            ),
            Kept::OutOfMemory => (
                "times that PyTorch ran out of memory are kept of a device of a process",
                "others are not judged",
            ),
            Kept::EndedOutOfMemory => (
                "times that PyTorch ran out of memory are kept of processes that ended",
                "others are not judged",
            ),
            Kept::GrowthLines => (
                "lines of memory are followed over time",
                "changes of others are in no line",
            ),
            Kept::EndedGrowthLines => (
                "lines of processes that ended are kept",
                "others are not shown",
            ),
            Kept::GrowthCallers => (
                "call sites name the file of a line of memory",
                "others count as an unknown file",
            ),
            Kept::Sleeps => ("sleeps are kept", "others are not shown"),
            Kept::FailingProcesses => (
                "processes are looked at for failures",
                "calls of others were not",
            ),
            Kept::ErrorCodes => (
                "codes of failures are told apart in a process",
                "failures with others are not shown",
            ),
            Kept::OpenRefusals => (
                "refused allocations of a process wait for an answer",
                "others count as unanswered",
            ),
            Kept::Kernels => (
                "kernels of a function are told apart",
                "launches of others are one row without a name",
            ),
            Kept::Graphs => (
                "graphs have their kernels counted",
                "others are shown without that count",
            ),
            Kept::AbandonedCalls => ("calls that did not return are listed", "others are not"),
        }
    }
}
