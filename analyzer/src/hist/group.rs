//! Whose values a histogram counts.

use std::collections::BTreeMap;

use agent_common::{ApiId, Effect};
use clap::ValueEnum;
use serde::Serialize;
use trace::fact;

use crate::demangle;
use crate::text;

/// What values are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The function; of memory, the one that allocated it
    Api,
    /// The process
    Process,
    /// The device
    Device,
    /// The library that called; of memory, the one that allocated it
    Caller,
    /// The kernel: of launches alone
    Kernel,
}

/// Whose a value is, as far as a row tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whose {
    pub(super) pid: u32,
    pub(super) api: Option<ApiId>,
    pub(super) device: Option<i32>,
    pub(super) caller: Option<u32>,
    pub(super) kernel: Option<u32>,
}

impl Whose {
    /// Whether it is of a launch that is no kernel's.
    pub(super) fn is_graph(&self) -> bool {
        let api = self.api.and_then(ApiId::api);
        api.is_some_and(|api| api.effect == Effect::GraphLaunch)
    }
}

/// A group, by the ids of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    All,
    Api(Option<u16>),
    /// With its start time, where it is known.
    Process(u32, Option<u64>),
    Device(u32, Option<i32>),
    Caller(Option<u32>),
    Kernel(Option<u32>),
}

/// A group. Which fields it has depends on what values are grouped by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Group {
    /// Calls of a function, or memory that it allocated.
    Api {
        /// Its name; `None`: not known.
        api: Option<&'static str>,
    },
    /// What concerns a process.
    Process {
        /// Its id.
        pid: u32,
        /// Clock ticks after boot when it started; `None`: not in the recording.
        start_time: Option<u64>,
        /// Its title; likewise.
        title: Option<String>,
    },
    /// What concerns a device.
    Device {
        /// The device; `None`: no program asked for it.
        uuid: Option<String>,
        /// The process that calls it by its ordinal; `None` where `uuid` tells.
        pid: Option<u32>,
        /// Its ordinal, as the process counts; `None` where `uuid` tells, or not known.
        device: Option<i32>,
    },
    /// What a library called for.
    Caller {
        /// Its file; `None`: not known.
        caller: Option<String>,
    },
    /// Launches of a kernel.
    Kernel {
        /// Name as the compiler made it; `None`: not known.
        kernel: Option<String>,
        /// File that it is in; `None`: not known.
        module: Option<String>,
    },
    /// All groups beyond those that are told apart.
    Others {
        /// Always true.
        others: bool,
    },
}

/// What the ids of rows mean.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) kernels: BTreeMap<u32, fact::Kernel>,
    pub(super) callers: BTreeMap<u32, Option<String>>,
    /// By process id and ordinal.
    pub(super) uuids: BTreeMap<(u32, i32), String>,
    /// By process id and start time.
    pub(super) titles: BTreeMap<(u32, u64), String>,
}

impl Names {
    /// The group that a key stands for; `None`: all in one.
    pub(super) fn group(&self, key: Key) -> Option<Group> {
        Some(match key {
            Key::All => return None,
            Key::Api(id) => {
                let api = id.and_then(|id| ApiId(id).api());
                Group::Api {
                    api: api.map(|api| api.name),
                }
            }
            Key::Process(pid, start_time) => {
                let title = start_time.and_then(|start| self.titles.get(&(pid, start)));
                Group::Process {
                    pid,
                    start_time,
                    title: title.cloned(),
                }
            }
            Key::Device(pid, device) => {
                match device.and_then(|device| self.uuids.get(&(pid, device))) {
                    Some(uuid) => Group::Device {
                        uuid: Some(uuid.clone()),
                        pid: None,
                        device: None,
                    },
                    None => Group::Device {
                        uuid: None,
                        pid: Some(pid),
                        device,
                    },
                }
            }
            Key::Caller(id) => Group::Caller {
                caller: id.and_then(|id| self.callers.get(&id).cloned().flatten()),
            },
            Key::Kernel(id) => {
                let known = id.and_then(|id| self.kernels.get(&id));
                Group::Kernel {
                    kernel: known.and_then(|kernel| kernel.name.clone()),
                    module: known.and_then(|kernel| kernel.module.clone()),
                }
            }
        })
    }

    /// What a kernel id means. It may be told again, when more is known.
    pub(super) fn kernel(&mut self, told: fact::Kernel) {
        let known = self.kernels.entry(told.id).or_insert_with(|| told.clone());
        known.name = told.name.or_else(|| known.name.take());
        known.module = told.module.or_else(|| known.module.take());
    }
}

impl Group {
    /// As a person reads it, in at most so many characters.
    pub(super) fn label(&self, width: usize) -> String {
        let unknown = || "unknown".to_owned();
        match self {
            Self::Api { api } => api.map_or_else(unknown, str::to_owned),
            Self::Process { pid, title, .. } => match title.as_deref() {
                Some(title) if !title.is_empty() => format!("{pid} {title}"),
                Some(_) | None => pid.to_string(),
            },
            Self::Device { uuid, pid, device } => match (uuid, device, pid) {
                (Some(uuid), _, _) => uuid.clone(),
                (None, Some(device), Some(pid)) => format!("device {device} of {pid}"),
                (None, _, Some(pid)) => format!("unknown, of {pid}"),
                (None, _, None) => unknown(),
            },
            Self::Caller { caller } => caller
                .as_deref()
                .map_or_else(unknown, |path| text::file_name(path, width)),
            Self::Kernel { kernel, module } => match (kernel, module) {
                (Some(kernel), _) => text::shortened(&demangle::folded(kernel, width), width),
                (None, Some(module)) => format!("unknown in {}", text::file_name(module, 24)),
                (None, None) => unknown(),
            },
            Self::Others { .. } => "others".to_owned(),
        }
    }

    /// What tells it from all others, whole.
    pub(super) fn full_name(&self) -> String {
        match self {
            Self::Caller {
                caller: Some(path), ..
            } => path.clone(),
            Self::Kernel {
                kernel: Some(name),
                module,
            } => match module {
                Some(module) => format!("{name}@{module}"),
                None => name.clone(),
            },
            Self::Process {
                pid,
                start_time: Some(start),
                ..
            } => format!("{pid}@{start}"),
            Self::Kernel {
                kernel: None,
                module: Some(module),
            } => format!("unknown@{module}"),
            Self::Api { .. }
            | Self::Process { .. }
            | Self::Device { .. }
            | Self::Caller { .. }
            | Self::Kernel { .. }
            | Self::Others { .. } => self.label(usize::MAX),
        }
    }
}
