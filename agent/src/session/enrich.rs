//! What a recording says beyond the kernel's record: which device, which kernel, who called.

use std::collections::{HashMap, HashSet};

use agent_common::{CallRecord, Family, KERNEL_NAME_CAPACITY, Layer, NameRecord, Shape};
use rustc_hash::FxHashMap;
use trace::{Event, Fact, fact};

use super::names::{NameQuery, Names, Snapshot, Subject};

/// Most call sites, and most kernels, that are told apart; the rest stay null.
const MAX_IDS: usize = 1 << 20;

/// Fills in device, kernel and caller of each event.
#[derive(Debug)]
pub(super) struct Enricher {
    names: Names,
    /// The device that a thread chose last.
    devices: FxHashMap<u32, i32>,
    /// Processes traced from before their first call: device 0 until they choose.
    from_start: HashSet<u32>,
    /// Id of a kernel, by process and host stub or driver handle.
    kernels: FxHashMap<(u32, u64), u32>,
    /// Names of driver handles, by process and handle.
    handles: HashMap<(u32, u64), String>,
    next_kernel: u32,
    /// Id of a call site, by process and return address.
    callers: FxHashMap<(u32, u64), u32>,
    next_caller: u32,
}

impl Enricher {
    pub(super) fn new(names: Names) -> Self {
        Self {
            names,
            devices: FxHashMap::default(),
            from_start: HashSet::new(),
            kernels: FxHashMap::default(),
            handles: HashMap::new(),
            next_kernel: 0,
            callers: FxHashMap::default(),
            next_caller: 0,
        }
    }

    /// The event of a call record, and before it the facts that it needs.
    pub(super) fn call(&mut self, record: &CallRecord, emit: &mut dyn FnMut(&Event)) {
        let Some(mut event) = Event::from_record(record) else {
            tracing::warn!(
                "a record of the eBPF programs is not understood: {:?}",
                record.header
            );
            return;
        };
        let Some(api) = event.api.and_then(agent_common::ApiId::api) else {
            return;
        };
        self.device(api, &mut event);
        if record.caller != 0 {
            event.caller = self.caller(event.pid, event.timestamp, record.caller, emit);
        }
        if api.family == Family::Launch
            && let Some(handle) = event.handle
        {
            event.kernel = self.kernel(api.layer, record, handle, emit);
        }
        emit(&event);
    }

    /// A kernel handle's name, or the kernel that it is a handle of.
    pub(super) fn kernel_name(&mut self, record: &NameRecord) {
        let NameRecord {
            header,
            handle,
            kernel,
            length,
            ref name,
        } = *record;
        let length = usize::try_from(length)
            .unwrap_or(usize::MAX)
            .min(KERNEL_NAME_CAPACITY);
        let name = if length > 0 {
            Some(String::from_utf8_lossy(&name[..length]).into_owned())
        } else {
            self.handles.get(&(header.pid, kernel)).cloned()
        };
        let key = (header.pid, handle);
        // A handle is used again after its module is gone: what it was called no longer holds.
        self.kernels.remove(&key);
        match name {
            Some(name) if self.handles.len() < MAX_IDS => {
                self.handles.insert(key, name);
            }
            _ => {
                self.handles.remove(&key);
            }
        }
    }

    /// The runtime launched `stub` as this driver handle.
    pub(super) fn kernel_pair(&mut self, record: &CallRecord) {
        let pid = record.header.pid;
        let [stub, handle, ..] = record.args;
        if let Some(id) = self.kernels.get(&(pid, stub)).copied() {
            self.kernels.insert((pid, handle), id);
        }
    }

    /// A forked child starts with its parent's device and libraries; that of the agent is the
    /// command, which is traced from its first call on.
    pub(super) fn fork(&mut self, parent: u32, parent_thread: u32, child: u32) {
        self.forget(child);
        if let Some(device) = self.devices.get(&parent_thread).copied() {
            self.devices.insert(child, device);
        }
        if parent == std::process::id() || self.from_start.contains(&parent) {
            self.from_start.insert(child);
        }
        self.names.fork(parent, child);
    }

    /// What a process maps now.
    pub(super) fn mapped(&mut self, snapshot: Snapshot) {
        self.names.remember(snapshot);
    }

    /// The process is another program now.
    pub(super) fn exec(&mut self, pid: u32) {
        let from_start = self.from_start.contains(&pid);
        self.forget(pid);
        if from_start {
            self.from_start.insert(pid);
        }
    }

    /// The process ended.
    pub(super) fn forget(&mut self, pid: u32) {
        self.from_start.remove(&pid);
        self.devices.remove(&pid);
        self.kernels.retain(|(owner, _), _| *owner != pid);
        self.handles.retain(|(owner, _), _| *owner != pid);
        self.callers.retain(|(owner, _), _| *owner != pid);
    }

    /// Waits for the names that were asked for; hands out their facts.
    pub(super) fn finish(self, emit: &mut dyn FnMut(&Event)) {
        self.names.finish(emit);
    }

    /// Hands out the facts that have come in.
    pub(super) fn poll(&mut self, emit: &mut dyn FnMut(&Event)) {
        self.names.poll(emit);
    }

    fn device(&mut self, api: &agent_common::Api, event: &mut Event) {
        match api.shape {
            Shape::SelectDevice => {
                if let (Some(0), Some(device)) = (event.result, event.device) {
                    self.devices.insert(event.tid, device);
                }
            }
            Shape::Alloc | Shape::Free | Shape::MemoryInfo => {
                let chosen = self.devices.get(&event.tid).copied();
                let default = (api.layer == Layer::Runtime && self.from_start.contains(&event.pid))
                    .then_some(0);
                event.device = chosen.or(default);
            }
            Shape::LaunchRuntime
            | Shape::LaunchRuntimeEx
            | Shape::LaunchDriver
            | Shape::LaunchDriverEx
            | Shape::GraphLaunch
            | Shape::CopyKind
            | Shape::CopyKindStream
            | Shape::Copy
            | Shape::CopyStream
            | Shape::WaitDevice
            | Shape::WaitStream
            | Shape::WaitEvent
            | Shape::KernelByName
            | Shape::KernelFunction
            | Shape::KernelName
            | Shape::TorchReport
            | Shape::TorchOutOfMemory => {}
        }
    }

    fn caller(
        &mut self,
        pid: u32,
        timestamp: u64,
        address: u64,
        emit: &mut dyn FnMut(&Event),
    ) -> Option<u32> {
        if let Some(id) = self.callers.get(&(pid, address)) {
            return Some(*id);
        }
        if self.callers.len() >= MAX_IDS {
            return None;
        }
        let id = self.next_caller;
        self.next_caller += 1;
        self.callers.insert((pid, address), id);
        self.names.ask(
            NameQuery {
                pid,
                timestamp,
                id,
                address,
                subject: Subject::Caller,
            },
            emit,
        );
        Some(id)
    }

    fn kernel(
        &mut self,
        layer: Layer,
        record: &CallRecord,
        handle: u64,
        emit: &mut dyn FnMut(&Event),
    ) -> Option<u32> {
        let pid = record.header.pid;
        if let Some(id) = self.kernels.get(&(pid, handle)) {
            return Some(*id);
        }
        if self.kernels.len() >= MAX_IDS {
            return None;
        }
        let id = self.next_kernel;
        self.next_kernel += 1;
        self.kernels.insert((pid, handle), id);
        let timestamp = record.header.timestamp;
        let query = |subject, address| NameQuery {
            pid,
            timestamp,
            id,
            address,
            subject,
        };
        match (layer, self.handles.get(&(pid, handle))) {
            // A kernel handle of the driver, or one that the runtime was given by
            // `cudaLibraryGetKernel`: the module is the caller's.
            (_, Some(name)) => {
                let subject = Subject::NamedHandle {
                    handle,
                    name: name.clone(),
                };
                self.names.ask(query(subject, record.caller), emit);
            }
            (Layer::Runtime, None) => self.names.ask(query(Subject::HostStub, handle), emit),
            (Layer::Driver | Layer::Torch, None) => {
                self.names.ask(
                    query(Subject::UnnamedHandle { handle }, record.caller),
                    emit,
                );
            }
        }
        Some(id)
    }
}

/// The row of a fact.
pub(super) fn fact_event(pid: u32, tid: u32, timestamp: u64, fact: &Fact) -> Event {
    Event {
        timestamp,
        pid,
        tid,
        kind: trace::Kind::Fact,
        text: Some(fact.to_text()),
        ..Event::default()
    }
}

/// The fact that defines a kernel id.
pub(super) fn kernel_fact(
    id: u32,
    handle: u64,
    name: Option<String>,
    module: Option<String>,
) -> Fact {
    Fact::Kernel(fact::Kernel {
        id,
        name,
        module,
        handle,
    })
}
