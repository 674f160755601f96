//! The facts that are in force: each segment tells them again.

use std::collections::BTreeMap;

use trace::{Event, Fact, Kind, fact};

use crate::sink::Ids;

/// Most kernels, callers and devices that are kept.
const MOST: usize = 1 << 16;
/// Most processes and libraries that are kept.
const MOST_FILES: usize = 1 << 12;
/// Most bytes of the names and files of kernels and callers that are kept.
const MOST_BYTES: usize = 64 << 20;
/// Ids above this are not followed.
const MOST_IDS: usize = 1 << 24;

/// A fact, and of whom.
#[derive(Clone, Debug, PartialEq)]
struct Told<T> {
    timestamp: u64,
    pid: u32,
    tid: u32,
    what: T,
}

impl<T: Clone> Told<T> {
    fn of(event: &Event, what: &T) -> Self {
        Self {
            timestamp: event.timestamp,
            pid: event.pid,
            tid: event.tid,
            what: what.clone(),
        }
    }

    fn event(&self, fact: impl FnOnce(T) -> Fact) -> Event {
        Event {
            timestamp: self.timestamp,
            pid: self.pid,
            tid: self.tid,
            kind: Kind::Fact,
            text: Some(fact(self.what.clone()).to_text()),
            ..Event::default()
        }
    }
}

/// What rows refer to by id: which ids have been told of, and which are waited for.
#[derive(Debug, Default)]
struct Answers {
    told: Vec<bool>,
    /// Used by a row, and not told of yet.
    awaited: Vec<u32>,
}

impl Answers {
    fn used(&mut self, id: u32) {
        let place = id as usize;
        if place < MOST_IDS && !self.told.get(place).is_some_and(|told| *told) {
            self.grow(place);
            // Asked for once.
            self.told[place] = true;
            self.awaited.push(id);
        }
    }

    fn told(&mut self, id: u32) {
        let place = id as usize;
        if place < MOST_IDS {
            self.grow(place);
            self.told[place] = true;
            self.awaited.retain(|awaited| *awaited != id);
        }
    }

    fn grow(&mut self, place: usize) {
        if self.told.len() <= place {
            self.told.resize(place + 1, false);
        }
    }
}

/// The facts in force. Bounded; what found no place is counted.
#[derive(Debug, Default)]
pub(super) struct Standing {
    settings: Option<Told<fact::Settings>>,
    /// By device number, inode and path.
    modules: BTreeMap<(u64, u64, String), Told<fact::Module>>,
    /// By process id.
    processes: BTreeMap<u32, Told<fact::Process>>,
    /// By process id and ordinal.
    devices: BTreeMap<(u32, i32), Told<fact::Device>>,
    kernels: BTreeMap<u32, Told<fact::Kernel>>,
    callers: BTreeMap<u32, Told<fact::Caller>>,
    /// Of processes and programs that have ended: rows about their last moments may still come.
    leaving: Vec<Event>,
    kernel_answers: Answers,
    caller_answers: Answers,
    text_bytes: usize,
    forgotten: u64,
    next: Ids,
}

impl Standing {
    /// A row refers to these.
    pub(super) fn used(&mut self, kernel: Option<u32>, caller: Option<u32>) {
        if let Some(id) = kernel {
            self.kernel_answers.used(id);
            self.next.kernel = self.next.kernel.max(id.saturating_add(1));
        }
        if let Some(id) = caller {
            self.caller_answers.used(id);
            self.next.caller = self.next.caller.max(id.saturating_add(1));
        }
    }

    /// Takes note of a fact.
    pub(super) fn fact(&mut self, event: &Event, fact: &Fact) {
        match fact {
            Fact::Settings(settings) => self.settings = Some(Told::of(event, settings)),
            Fact::Module(module) => {
                let key = (module.dev, module.inode, module.path.clone());
                if self.has_place(self.modules.len(), MOST_FILES, 0) {
                    self.modules.insert(key, Told::of(event, module));
                }
            }
            Fact::Process(process) => {
                if self.has_place(self.processes.len(), MOST_FILES, 0) {
                    self.processes.insert(process.pid, Told::of(event, process));
                }
            }
            Fact::Device(device) => {
                if self.has_place(self.devices.len(), MOST, 0) {
                    self.devices
                        .insert((device.pid, device.ordinal), Told::of(event, device));
                }
            }
            Fact::Kernel(kernel) => self.kernel(event, kernel),
            Fact::Caller(caller) => {
                self.caller_answers.told(caller.id);
                self.next.caller = self.next.caller.max(caller.id.saturating_add(1));
                let bytes = caller.module.as_ref().map_or(0, String::len);
                if self.has_place(self.callers.len(), MOST, bytes) {
                    self.callers.insert(caller.id, Told::of(event, caller));
                }
            }
            Fact::Exec => self.leave(event.pid),
            Fact::Exit | Fact::Vanished => {
                self.leave(event.pid);
                self.processes.remove(&event.pid);
            }
            Fact::Fork { .. }
            | Fact::Clock(_)
            | Fact::Gap(_)
            | Fact::Hold { .. }
            | Fact::Account(_)
            | Fact::RecursionMisses { .. }
            | Fact::Checkpoint { .. }
            | Fact::Segment(_)
            | Fact::Unwritten(_)
            | Fact::Window(_)
            | Fact::TorchSampled
            | Fact::MemorySampled
            | Fact::End => {}
        }
    }

    /// A later fact adds what was unknown.
    fn kernel(&mut self, event: &Event, kernel: &fact::Kernel) {
        self.kernel_answers.told(kernel.id);
        self.next.kernel = self.next.kernel.max(kernel.id.saturating_add(1));
        if let Some(known) = self.kernels.get_mut(&kernel.id) {
            let fact::Kernel {
                id: _,
                name,
                module,
                handle: _,
            } = &mut known.what;
            *name = kernel.name.clone().or(name.take());
            *module = kernel.module.clone().or(module.take());
            return;
        }
        let texts = [&kernel.name, &kernel.module];
        let bytes = texts.into_iter().flatten().map(String::len).sum();
        if self.has_place(self.kernels.len(), MOST, bytes) {
            self.kernels.insert(kernel.id, Told::of(event, kernel));
        }
    }

    /// Whether one more fact may be kept where `kept` of at most `most` are; counts it if not.
    fn has_place(&mut self, kept: usize, most: usize, bytes: usize) -> bool {
        let has_place = kept < most && self.text_bytes + bytes <= MOST_BYTES;
        if has_place {
            self.text_bytes += bytes;
        } else {
            self.forgotten += 1;
        }
        has_place
    }

    /// The process has ended, or runs another program: what was known of it is told once more.
    fn leave(&mut self, pid: u32) {
        let Self {
            kernels,
            callers,
            devices,
            leaving,
            ..
        } = self;
        leaving.extend(take(kernels, pid).map(|told| told.event(Fact::Kernel)));
        leaving.extend(take(callers, pid).map(|told| told.event(Fact::Caller)));
        leaving.extend(take(devices, pid).map(|told| told.event(Fact::Device)));
        self.text_bytes = self.recount();
    }

    fn recount(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let kernels = self.kernels.values();
        let kernels = kernels.map(|told| length(&told.what.name) + length(&told.what.module));
        let callers = self.callers.values().map(|told| length(&told.what.module));
        kernels.chain(callers).sum()
    }

    /// Whether a row waits for a fact that says what an id of it means.
    pub(super) fn is_awaiting(&self) -> bool {
        !self.kernel_answers.awaited.is_empty() || !self.caller_answers.awaited.is_empty()
    }

    /// Facts that hold and found no place.
    pub(super) const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Ids that no fact has defined.
    pub(super) const fn first_free(&self) -> Ids {
        self.next
    }

    /// The facts, as a segment begins with them. What was told once more is told no more.
    pub(super) fn events(&mut self) -> Vec<Event> {
        let Self {
            settings,
            modules,
            processes,
            devices,
            kernels,
            callers,
            leaving,
            ..
        } = self;
        let mut events = Vec::new();
        events.extend(settings.iter().map(|told| told.event(Fact::Settings)));
        events.extend(processes.values().map(|told| told.event(Fact::Process)));
        events.extend(modules.values().map(|told| told.event(Fact::Module)));
        events.extend(devices.values().map(|told| told.event(Fact::Device)));
        events.extend(callers.values().map(|told| told.event(Fact::Caller)));
        events.extend(kernels.values().map(|told| told.event(Fact::Kernel)));
        events.append(leaving);
        events
    }

    /// Another recorder goes on from here: it tells by itself how it is set, what it traces, and
    /// which kernels are launched.
    pub(super) fn hand_on(&mut self) {
        self.settings = None;
        self.modules.clear();
        self.kernels.clear();
        self.leaving.clear();
        self.kernel_answers = Answers::default();
        self.caller_answers = Answers::default();
        self.text_bytes = self.recount();
    }
}

/// Takes out what is of a process.
fn take<K: Ord, T>(facts: &mut BTreeMap<K, Told<T>>, pid: u32) -> impl Iterator<Item = Told<T>> {
    let taken = facts.extract_if(.., move |_, told| told.pid == pid);
    taken.map(|(_, told)| told)
}
