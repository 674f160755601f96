//! The memory report (docs/memory.md), as far as it is shown.

use serde::Deserialize;

use super::Torch;

/// Of the memory report (docs/memory.md), what is shown.
#[derive(Debug, Deserialize)]
pub(in crate::top) struct Memory {
    pub(in crate::top) schema: String,
    pub(super) processes: Vec<Process>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) exe: Option<String>,
    pub(super) title: Option<String>,
    pub(super) end: Option<String>,
    pub(super) devices: Vec<Device>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Device {
    #[serde(rename = "device")]
    pub(super) ordinal: Option<i32>,
    pub(super) live_bytes: Option<u64>,
    pub(super) held_bytes: Option<u64>,
    pub(super) waste_bytes: Option<u64>,
    pub(super) peak_bytes: Option<u64>,
    pub(super) free_bytes: Option<u64>,
    pub(super) torch: Option<Torch>,
    pub(super) holders: Vec<Holder>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Holder {
    pub(super) caller: Option<String>,
    pub(super) kind: String,
    pub(super) live_count: u64,
    pub(super) live_bytes: u64,
}
