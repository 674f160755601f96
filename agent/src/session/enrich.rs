//! What a recording says beyond the kernel's record: which device, which kernel, who called.

use std::mem;

use agent_common::{Api, CallRecord, Effect, Layer, LongCallRecord, NameRecord, flags};
use rustc_hash::FxHashMap;
use trace::{Event, Fact, Kind, fact};

use super::{
    arrays::Arrays,
    captures::{Captures, Doubt},
    clock,
    devices::Devices,
    handles::{Change, Finding, Handles, Looked, Lookout, Reading},
    lost_unloadings::is_unloading,
    names::{Answer, AnswerKind, NameQuery, Names, Snapshot, Subject},
    unsettled::Unsettled,
};

use crate::sink::Ids;

/// Most call sites, and most kernels, that are told apart; the rest stay null.
const MAX_IDS: usize = 1 << 20;
/// Most handles that are yet to be read.
const MAX_UNREAD: usize = 1 << 12;

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
    handles: Handles,
    /// Launches of handles that are yet to be read, by kernel id.
    unread: FxHashMap<u32, Launch>,
    unsettled: Unsettled,
    next_kernel: u32,
    /// Id of a call site, by process and return address.
    callers: FxHashMap<(u32, u64), u32>,
    next_caller: u32,
}

/// The launch that made a kernel known.
#[derive(Clone, Copy, Debug)]
struct Launch {
    layer: Layer,
    pid: u32,
    timestamp: u64,
    caller: u64,
    handle: u64,
    /// Where the program told the runtime its name.
    registered: Option<u64>,
}

impl Launch {
    /// What to ask about the kernel `id`, whose handle is called `name` if it is known.
    fn question(&self, id: u32, name: Option<String>) -> NameQuery {
        let Self {
            layer,
            pid,
            timestamp,
            caller,
            handle,
            registered,
        } = *self;
        let (subject, address) = if name.is_none() && layer == Layer::Runtime {
            (Subject::HostStub { registered }, handle)
        } else {
            // A kernel handle of the driver, or one that the runtime was given by
            // `cudaLibraryGetKernel`: the module is the caller's.
            (Subject::Handle { handle, name }, caller)
        };
        NameQuery {
            pid,
            timestamp,
            id,
            address,
            subject,
        }
    }
}

impl Enricher {
    /// `lookout` reads names of handles; `first` are the first ids to give out.
    pub(super) fn new(names: Names, lookout: Lookout, first: Ids) -> Self {
        Self {
            names,
            devices: Devices::default(),
            captures: Captures::default(),
            arrays: Arrays::default(),
            registered: FxHashMap::default(),
            kernels: FxHashMap::default(),
            handles: Handles::new(lookout),
            unread: FxHashMap::default(),
            unsettled: Unsettled::default(),
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
        self.modules(api, &event);
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
        let change = self.handles.told(record);
        self.changed(record.header.pid, change);
    }

    /// The runtime launched `stub` as this driver handle.
    pub(super) fn kernel_pair(&mut self, record: &CallRecord) {
        let pid = record.header.pid;
        let [stub, handle, ..] = record.args;
        if stub == handle {
            // Since CUDA 13 the runtime may launch by the driver's own handle.
            return;
        }
        if let Some(id) = self.kernels.get(&(pid, stub)).copied()
            && self.handles.stub_paired(pid, handle)
        {
            self.kernels.insert((pid, handle), id);
        }
        if is_ours(record) {
            self.handles.pair_shows(pid, stub, handle);
        }
    }

    /// Handles that may be other kernels than before are looked at when they are launched next.
    fn changed(&mut self, pid: u32, change: Change) {
        let Change { handles } = change;
        for handle in handles {
            self.kernels.remove(&(pid, handle));
        }
    }

    /// What a call tells of modules: which library one is of, and which are gone.
    fn modules(&mut self, api: &Api, event: &Event) {
        if let (Effect::KernelLookup, Some(module), Some(library), Some(0)) =
            (api.effect, event.handle, event.related, event.result)
            && api.name == "cuLibraryGetModule"
        {
            self.handles.module_of(event.pid, module, library);
        }
        let has_failed = event.result.is_some_and(|result| result != 0);
        if event.kind == Kind::Begin || has_failed {
            return;
        }
        if is_unloading(api.effect) {
            let container = event.handle.filter(|_| api.effect == Effect::ModuleUnload);
            self.unloaded(event.pid, container, event.timestamp);
        }
    }

    /// A module or library is gone, or nobody knows which: handles of its kernels may be used again for
    /// others.
    fn unloaded(&mut self, pid: u32, container: Option<u64>, timestamp: u64) {
        let change = self.handles.unloaded(pid, container);
        self.changed(pid, change);
        for handle in self.unsettled.doubt(pid, timestamp) {
            self.handles.doubt(pid, handle);
            self.kernels.remove(&(pid, handle));
        }
    }

    /// Calls of the process were missed, unloading ones perhaps.
    pub(super) fn missed(&mut self, pid: u32, timestamp: u64) {
        self.unloaded(pid, None, timestamp);
    }

    /// Unloading calls of some process were missed, not long ago.
    pub(super) fn missed_anywhere(&mut self) {
        for pid in self.handles.processes() {
            self.unloaded(pid, None, 0);
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
    pub(super) fn exec(&mut self, pid: u32, emit: &mut dyn FnMut(&Event)) {
        let from_start = self.devices.is_from_start(pid);
        self.ended(pid, emit);
        if from_start {
            self.devices.starts(pid);
        }
    }

    /// A process that ended has been left by whoever attaches probes: what it mapped is not told
    /// any more.
    pub(super) fn gone(&mut self, pid: u32) {
        self.names.forget(pid);
    }

    /// The process ended: what was held back of it is sure now.
    pub(super) fn ended(&mut self, pid: u32, emit: &mut dyn FnMut(&Event)) {
        for answer in self.unsettled.of_process(pid) {
            emit(&answer_event(answer));
        }
        self.forget(pid);
    }

    fn forget(&mut self, pid: u32) {
        self.devices.forget(pid);
        self.captures.forget(pid);
        self.arrays.forget(pid);
        self.registered.retain(|(owner, _), _| *owner != pid);
        self.kernels.retain(|(owner, _), _| *owner != pid);
        self.handles.forget(pid);
        self.callers.retain(|(owner, _), _| *owner != pid);
    }

    /// Waits for the names that were asked for; hands out their facts.
    pub(super) fn finish(mut self, emit: &mut dyn FnMut(&Event)) {
        for finding in self.handles.finish() {
            self.found(finding, emit);
        }
        let mut unread: Vec<_> = mem::take(&mut self.unread).into_iter().collect();
        unread.sort_unstable_by_key(|(id, _)| *id);
        for (id, launch) in unread {
            // It was not read in time.
            self.unsettled.nameless(id);
            self.ask(launch.question(id, None), emit);
        }
        let Self {
            names,
            mut unsettled,
            ..
        } = self;
        names.finish(&mut |answer| {
            if let Some(answer) = unsettled.hold(answer) {
                emit(&answer_event(answer));
            }
        });
        for answer in unsettled.all() {
            emit(&answer_event(answer));
        }
    }

    /// Hands out the facts that have come in. All records from before `heard` have been taken in, ns of
    /// `CLOCK_MONOTONIC`.
    pub(super) fn poll(&mut self, heard: u64, emit: &mut dyn FnMut(&Event)) {
        let mut answers = Vec::new();
        self.names.poll(&mut |answer| answers.push(answer));
        for answer in answers {
            self.heard(answer, emit);
        }
        for finding in self.handles.hear() {
            self.found(finding, emit);
        }
        for answer in self.unsettled.settled(heard) {
            if let AnswerKind::Handle(fact::Kernel {
                name: Some(_),
                handle,
                ..
            }) = answer.kind
            {
                self.handles.settled(answer.pid, handle);
            }
            emit(&answer_event(answer));
        }
    }

    fn ask(&mut self, query: NameQuery, emit: &mut dyn FnMut(&Event)) {
        let mut at_once = None;
        self.names.ask(query, &mut |answer| at_once = Some(answer));
        if let Some(answer) = at_once {
            self.heard(answer, emit);
        }
    }

    fn heard(&mut self, answer: Answer, emit: &mut dyn FnMut(&Event)) {
        if let AnswerKind::Stub(fact::Kernel {
            id,
            name: Some(name),
            handle: stub,
            ..
        }) = &answer.kind
            // The process may have ended.
            && self.kernels.get(&(answer.pid, *stub)) == Some(id)
        {
            self.handles.stub_named(answer.pid, *stub, name);
        }
        if let Some(answer) = self.unsettled.hold(answer) {
            emit(&answer_event(answer));
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
        self.next_caller = id.wrapping_add(1);
        self.callers.insert((pid, address), id);
        self.ask(
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
        let launch = Launch {
            layer,
            pid,
            timestamp: record.header.timestamp,
            caller: record.caller,
            handle,
            registered: self.registered.get(&(pid, handle)).copied(),
        };
        let told = self.handles.name(pid, handle).map(str::to_owned);
        let mut is_lasting = true;
        let id = self.next_kernel;
        let question = if told.is_some() || layer == Layer::Runtime && launch.registered.is_some() {
            Some(launch.question(id, told))
        } else {
            match self.look(record, handle) {
                Looked::Same(id) => {
                    self.kernels.insert((pid, handle), id);
                    return Some(id);
                }
                Looked::NotNow(id) => return Some(id),
                Looked::Unread => {
                    is_lasting = false;
                    Some(launch.question(id, None))
                }
                Looked::New(name) => Some(launch.question(id, name)),
                Looked::Later => {
                    self.unread.insert(id, launch);
                    None
                }
            }
        };
        self.next_kernel = id.wrapping_add(1);
        if is_lasting {
            self.kernels.insert((pid, handle), id);
        }
        if let Some(question) = question {
            self.ask(question, emit);
        }
        Some(id)
    }

    /// What a handle is that no call told of; a name is held back until it is sure that it was that
    /// kernel's.
    fn look(&mut self, record: &CallRecord, handle: u64) -> Looked {
        let pid = record.header.pid;
        if !is_ours(record) || !self.unsettled.has_room() || self.unread.len() >= MAX_UNREAD {
            return Looked::New(None);
        }
        let id = self.next_kernel;
        let (looked, change) = self.handles.look(pid, handle, id);
        self.changed(pid, change);
        let name = match &looked {
            Looked::Same(_) | Looked::NotNow(_) => return looked,
            Looked::Unread => None,
            Looked::Later => {
                self.unsettled.expect(pid, id, handle, None);
                None
            }
            Looked::New(name) => name.as_deref(),
        };
        if name.is_some() && !self.names.answers_at_once() {
            let read_at = Some(clock::monotonic());
            self.unsettled.expect(pid, id, handle, read_at);
        }
        self.handles.found(pid, handle, name, id);
        looked
    }

    /// What was found out about names that are read in processes.
    fn found(&mut self, finding: Finding, emit: &mut dyn FnMut(&Event)) {
        match finding {
            Finding::Places { pid, sure, surer } => {
                let change = self.handles.places(pid, sure, surer);
                self.changed(pid, change);
            }
            Finding::Name(reading) => self.read(reading, emit),
        }
    }

    /// A handle that was looked at has been read.
    fn read(&mut self, reading: Reading, emit: &mut dyn FnMut(&Event)) {
        let Some(launch) = self.unread.remove(&reading.id) else {
            return;
        };
        let is_doubtful = if reading.name.is_some() {
            self.unsettled.read(reading.id, reading.read_at)
        } else {
            self.unsettled.nameless(reading.id);
            false
        };
        if !is_doubtful {
            self.handles.read(&reading);
        }
        self.ask(launch.question(reading.id, reading.name), emit);
    }
}

/// Whether the process has the id that the record says, so that /proc can be asked about it.
fn is_ours(record: &CallRecord) -> bool {
    record.header.flags & flags::FOREIGN_PID == 0
}

/// The row that an answer makes.
fn answer_event(answer: Answer) -> Event {
    let Answer {
        pid,
        timestamp,
        kind,
    } = answer;
    let fact = match kind {
        AnswerKind::Caller(caller) => Fact::Caller(caller),
        AnswerKind::Stub(kernel) | AnswerKind::Handle(kernel) => Fact::Kernel(kernel),
    };
    fact_event(pid, pid, timestamp, &fact)
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

#[cfg(test)]
mod tests;
