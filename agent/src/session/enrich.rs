//! What a recording says beyond the kernel's record: which device, which kernel, who called.

use std::collections::HashMap;

use agent_common::{CallRecord, Effect, KERNEL_NAME_CAPACITY, Layer, LongCallRecord, NameRecord};
use rustc_hash::FxHashMap;
use trace::{Event, Fact, Kind, fact};

use super::{
    arrays::Arrays,
    captures::{Captures, Doubt},
    devices::Devices,
    names::{NameQuery, Names, Snapshot, Subject},
};

use crate::sink::Ids;

/// Most call sites, and most kernels, that are told apart; the rest stay null.
const MAX_IDS: usize = 1 << 20;

/// Fills in device, kernel and caller of each event.
#[derive(Debug)]
pub(super) struct Enricher {
    names: Names,
    devices: Devices,
    captures: Captures,
    arrays: Arrays,
    /// Where a host stub's name stands in its process, by process and stub.
    registered: FxHashMap<(u32, u64), u64>,
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
    /// `first` are the first ids to give out.
    pub(super) fn new(names: Names, first: Ids) -> Self {
        Self {
            names,
            devices: Devices::default(),
            captures: Captures::default(),
            arrays: Arrays::default(),
            registered: FxHashMap::default(),
            kernels: FxHashMap::default(),
            handles: HashMap::new(),
            next_kernel: first.kernel,
            callers: FxHashMap::default(),
            next_caller: first.caller,
        }
    }

    /// The event of a call record, and before it the facts that it needs.
    pub(super) fn call(&mut self, record: &LongCallRecord, emit: &mut dyn FnMut(&Event)) {
        let Some(mut event) = Event::from_record(record) else {
            tracing::warn!(
                "a record of the eBPF programs is not understood: {:?}",
                record.call.header
            );
            return;
        };
        let Some(api) = event.api.and_then(agent_common::ApiId::api) else {
            return;
        };
        if api.effect == Effect::DeviceIdentity
            && let Some(told) = trace::device_identity(record)
            && let Some(device) = self.devices.identified(told)
        {
            let (pid, tid) = (event.pid, event.tid);
            emit(&fact_event(
                pid,
                tid,
                event.timestamp,
                &Fact::Device(device),
            ));
        }
        self.devices.call(api, &mut event);
        self.arrays.call(api, &mut event);
        let doubt = match event.kind {
            Kind::Call => self.captures.call(api, &mut event),
            Kind::Begin | Kind::Abandoned | Kind::InFlight | Kind::Fact => Doubt::No,
        };
        let caller = record.call.caller;
        if caller != 0 {
            event.caller = self.caller(event.pid, event.timestamp, caller, emit);
        }
        if api.effect == Effect::Launch
            && let Some(handle) = event.handle
        {
            event.kernel = self.kernel(api.layer, &record.call, handle, emit);
        }
        emit(&event);
        if let Some(reason) = doubt.reason() {
            let gap = fact::Gap {
                pid: event.pid,
                reason: reason.to_owned(),
                duration: None,
            };
            emit(&fact_event(
                event.pid,
                event.tid,
                event.timestamp,
                &Fact::Gap(gap),
            ));
        }
    }

    /// The program made a kernel known to the runtime.
    pub(super) fn registered(&mut self, record: &CallRecord) {
        let [stub, name, ..] = record.args;
        if self.registered.len() < MAX_IDS {
            self.registered.insert((record.header.pid, stub), name);
        }
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
        self.devices.fork(parent, parent_thread, child);
        if parent == std::process::id() {
            self.devices.starts(child);
        }
        self.names.fork(parent, child);
    }

    /// What a process maps now.
    pub(super) fn mapped(&mut self, snapshot: Snapshot) {
        self.names.remember(snapshot);
    }

    /// The process is another program now.
    pub(super) fn exec(&mut self, pid: u32) {
        let from_start = self.devices.is_from_start(pid);
        self.forget(pid);
        if from_start {
            self.devices.starts(pid);
        }
    }

    /// A process that ended has been left by whoever attaches probes: what it mapped is not told
    /// any more.
    pub(super) fn gone(&mut self, pid: u32) {
        self.names.forget(pid);
    }

    /// The process ended.
    pub(super) fn forget(&mut self, pid: u32) {
        self.devices.forget(pid);
        self.captures.forget(pid);
        self.arrays.forget(pid);
        self.registered.retain(|(owner, _), _| *owner != pid);
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
        self.next_caller = id.wrapping_add(1);
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
        self.next_kernel = id.wrapping_add(1);
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
            (Layer::Runtime, None) => {
                let registered = self.registered.get(&(pid, handle)).copied();
                self.names
                    .ask(query(Subject::HostStub { registered }, handle), emit);
            }
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
pub(crate) fn fact_event(pid: u32, tid: u32, timestamp: u64, fact: &Fact) -> Event {
    Event {
        timestamp,
        pid,
        tid,
        kind: Kind::Fact,
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
