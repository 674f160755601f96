//! What a verdict can be.

use serde::Serialize;

/// Why memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The device is too small for what this process holds and wants.
    Capacity,
    /// Enough memory was held unused, in pieces that were too small or out of reach.
    Fragmentation,
    /// Other processes hold what was missing.
    OtherProcess,
    /// A limit that was set refused, not the device.
    Limit,
    /// Freed memory still waited for a stream: a retry works.
    PendingFree,
    /// The driver had moved memory to the host: the device was overcommitted.
    HostSpill,
    /// CUDA graphs, or other private pools, hold what was missing.
    GraphMemory,
    /// The numbers do not tell.
    Unknown,
}

impl Verdict {
    /// The name in JSON and text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Fragmentation => "fragmentation",
            Self::OtherProcess => "other_process",
            Self::Limit => "limit",
            Self::PendingFree => "pending_free",
            Self::HostSpill => "host_spill",
            Self::GraphMemory => "graph_memory",
            Self::Unknown => "unknown",
        }
    }
}

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The numbers leave no other.
    Certain,
    /// A number had to be inferred, or the cause was seen only afterwards.
    Likely,
    /// There is no verdict.
    None,
}

/// Memory that would have made the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// `unused`, `private_pools`, `other_processes`, `limit`.
    pub held_by: &'static str,
    /// Its bytes.
    pub bytes: u64,
    /// Whether together with the device's free memory it would have been enough.
    pub sufficient: bool,
}
