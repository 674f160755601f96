//! What the driver's kernel handles are called: told by the calls that look them up; of others, read in
//! the process, where its handles show where the driver keeps names.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    mem,
};

use agent_common::{ApiId, KERNEL_NAME_CAPACITY, NameRecord, Shape, flags};
use rustc_hash::{FxHashMap, FxHashSet};

pub(super) use lookout::{Finding, Lookout, Reading};

use super::clock;
use crate::names::Source;

mod lookout;

/// Most handles of a process that are kept.
const MAX_HANDLES: usize = 1 << 18;
/// Bytes of names that calls told, of one process.
const MAX_NAMES: usize = 64 << 20;
/// Most host stubs of a process that wait for a name or for a handle.
const MAX_HALVES: usize = 1 << 12;
/// A handle that was doubtful so often is not looked at again at once, lest each look makes a kernel of
/// its own.
const MAX_DOUBTS: u32 = 2;
/// How long it takes then until it is looked at again, ns; twice as long with each doubt more.
const LOOK_AGAIN: u64 = 1_000_000_000;
/// How often that is doubled.
const MAX_DOUBLED: u32 = 6;

/// Handles of all processes.
#[derive(Debug)]
pub(super) struct Handles {
    processes: FxHashMap<u32, OfProcess>,
    lookout: Lookout,
    /// What was found out of one process while another's handle was looked at.
    overheard: Vec<Finding>,
}

/// Handles of one process.
#[derive(Debug, Default)]
struct OfProcess {
    /// Those that calls told of.
    told: FxHashMap<u64, Told>,
    /// Bytes of their names.
    bytes: usize,
    /// Those that no call told of.
    found: FxHashMap<u64, Found>,
    /// Those that the runtime passed host stubs on as.
    paired: FxHashSet<u64>,
    /// By host stub.
    halves: FxHashMap<u64, Half>,
    /// Libraries by their modules.
    libraries: FxHashMap<u64, u64>,
    /// It is sure where names are, of some handles.
    is_sure: bool,
}

#[derive(Debug)]
struct Told {
    name: String,
    /// The module or library that it was looked up in; 0 where that is not known.
    container: u64,
}

#[derive(Debug)]
struct Found {
    /// Of its name; `None` where it has none.
    fingerprint: Option<u64>,
    /// The kernel id that it is passed on under.
    id: u32,
    /// How often in succession what was read there was in doubt.
    doubts: u32,
    /// When it was last looked at, ns of `CLOCK_MONOTONIC`.
    looked_at: u64,
}

impl Found {
    /// Whether it is too early to look again.
    fn is_too_early(&self) -> bool {
        let Some(more) = self.doubts.checked_sub(MAX_DOUBTS) else {
            return false;
        };
        let wait = LOOK_AGAIN << more.min(MAX_DOUBLED);
        clock::monotonic().saturating_sub(self.looked_at) < wait
    }
}

/// The one of a kernel's name and its driver handle that came first.
#[derive(Debug)]
enum Half {
    Name(String),
    Handle(u64),
}

/// What a handle that no call told of is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// What it was before, under this kernel id.
    Same(u32),
    /// Under this kernel id, until it can be looked at again.
    NotNow(u32),
    /// Something new, perhaps, until it can be looked at again.
    Unread,
    /// Something new; its name, where that can be found out.
    New(Option<String>),
    /// Something new; [`Handles::hear`] will tell its name.
    Later,
}

/// What has changed of that which was known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// These handles may be other kernels than before.
    pub(super) handles: Vec<u64>,
}

impl Handles {
    /// `lookout` reads names.
    pub(super) fn new(lookout: Lookout) -> Self {
        Self {
            processes: FxHashMap::default(),
            lookout,
            overheard: Vec::new(),
        }
    }

    /// A call told a handle's name, or what it is a handle of.
    pub(super) fn told(&mut self, record: &NameRecord) -> Change {
        let NameRecord {
            header,
            handle,
            origin,
            length,
            ref name,
        } = *record;
        let process = self.processes.entry(header.pid).or_default();
        let length = usize::try_from(length)
            .unwrap_or(usize::MAX)
            .min(KERNEL_NAME_CAPACITY);
        let shape = ApiId(header.api).api().map(|api| api.shape);
        let kernel = (shape == Some(Shape::KernelFunction))
            .then(|| process.told.get(&origin))
            .flatten();
        let name = if length > 0 {
            Some(String::from_utf8_lossy(&name[..length]).into_owned())
        } else {
            kernel.map(|kernel| kernel.name.clone())
        };
        let before = process.told.get(&handle);
        let Some(name) = name else {
            // What it is a handle of has no name. One that was read stays, for that was not told.
            return if process.forget_told(handle) {
                Change {
                    handles: vec![handle],
                }
            } else {
                Change::default()
            };
        };
        let container = if shape == Some(Shape::KernelByName) {
            *process.libraries.get(&origin).unwrap_or(&origin)
        } else {
            kernel.or(before).map_or(0, |told| told.container)
        };
        let found = process.found.remove(&handle);
        let is_same = match (before, found) {
            (Some(told), _) => told.name == name,
            (None, Some(found)) => found.fingerprint == Some(fingerprint(&name)),
            (None, None) => false,
        };
        let is_whole = header.flags & flags::NAME_CUT == 0;
        let is_ours = header.flags & flags::FOREIGN_PID == 0;
        process.forget_told(handle);
        process.paired.remove(&handle);
        if is_whole && is_ours {
            let source = Source::Driver;
            self.lookout.learn(header.pid, handle, &name, source);
        }
        let handles = if is_same { Vec::new() } else { vec![handle] };
        if let Some(process) = self.processes.get_mut(&header.pid) {
            process.keep(handle, Told { name, container });
        }
        Change { handles }
    }

    /// What calls said that the handle is called.
    pub(super) fn name(&self, pid: u32, handle: u64) -> Option<&str> {
        let told = self.processes.get(&pid)?.told.get(&handle)?;
        Some(told.name.as_str())
    }

    /// The module is that of a library.
    pub(super) fn module_of(&mut self, pid: u32, module: u64, library: u64) {
        let libraries = &mut self.processes.entry(pid).or_default().libraries;
        if libraries.len() < MAX_HANDLES {
            libraries.insert(module, library);
        }
    }

    /// A kernel of the runtime is called this.
    pub(super) fn stub_named(&mut self, pid: u32, stub: u64, name: &str) {
        let process = self.processes.entry(pid).or_default();
        if let Some(Half::Handle(handle)) = process.halves.remove(&stub) {
            self.lookout.learn(pid, handle, name, Source::HostStub);
        } else {
            process.half(stub, Half::Name(name.to_owned()));
        }
    }

    /// The runtime passed that kernel on as this handle. Whether the handle is the kernel's, and not
    /// one that calls told of.
    pub(super) fn stub_paired(&mut self, pid: u32, handle: u64) -> bool {
        let process = self.processes.entry(pid).or_default();
        if process.told.contains_key(&handle) || process.paired.len() >= MAX_HANDLES {
            return false;
        }
        process.found.remove(&handle);
        process.paired.insert(handle);
        true
    }

    /// The same, for where names are.
    pub(super) fn pair_shows(&mut self, pid: u32, stub: u64, handle: u64) {
        let process = self.processes.entry(pid).or_default();
        if let Some(Half::Name(name)) = process.halves.remove(&stub) {
            self.lookout.learn(pid, handle, &name, Source::HostStub);
        } else {
            process.half(stub, Half::Handle(handle));
        }
    }

    /// Takes note of what was found out of this process, and keeps what was of others; the name, if it
    /// is one.
    fn note(&mut self, pid: u32, finding: Finding, change: &mut Change) -> Option<Reading> {
        match finding {
            Finding::Places {
                pid: of,
                sure,
                surer,
            } if of == pid => {
                change.handles.extend(self.places(pid, sure, surer).handles);
                None
            }
            Finding::Places { .. } => {
                self.overheard.push(finding);
                None
            }
            Finding::Name(reading) => Some(reading),
        }
    }

    /// What has become known of where names are in a process.
    pub(super) fn places(&mut self, pid: u32, sure: bool, surer: bool) -> Change {
        let mut change = Change::default();
        if let Some(process) = self.processes.get_mut(&pid) {
            process.is_sure = sure;
            if surer {
                change.handles.extend(process.found.keys());
            }
        }
        change
    }

    /// What a handle is that is launched, and that no call told of; and what has changed with that. `id`
    /// is the kernel's if it is something new.
    pub(super) fn look(&mut self, pid: u32, handle: u64, id: u32) -> (Looked, Change) {
        let process = self.processes.entry(pid).or_default();
        if let Some(found) = process.found.get(&handle)
            && found.is_too_early()
        {
            let looked = match found.fingerprint {
                // Under the id of a name, it would have that name.
                Some(_) => Looked::Unread,
                None => Looked::NotNow(found.id),
            };
            return (looked, Change::default());
        }
        let findings = self.lookout.look(pid, handle, id);
        let mut change = Change::default();
        let mut read = None;
        for finding in findings {
            read = self.note(pid, finding, &mut change).or(read);
        }
        let Some(Reading { name, .. }) = read else {
            return (Looked::Later, change);
        };
        let process = self.processes.entry(pid).or_default();
        match process.found.get(&handle) {
            Some(found) if found.fingerprint == name.as_deref().map(fingerprint) => {
                (Looked::Same(found.id), change)
            }
            _ => (Looked::New(name), change),
        }
    }

    /// What has been found out since.
    pub(super) fn hear(&mut self) -> Vec<Finding> {
        let mut findings = mem::take(&mut self.overheard);
        findings.extend(self.lookout.hear());
        findings
    }

    /// What is found out by the end.
    pub(super) fn finish(&mut self) -> Vec<Finding> {
        let mut findings = mem::take(&mut self.overheard);
        findings.extend(self.lookout.finish());
        findings
    }

    /// A name has come that was to come later.
    pub(super) fn read(&mut self, reading: &Reading) {
        let process = self.processes.get_mut(&reading.pid);
        if let Some(found) = process.and_then(|process| process.found.get_mut(&reading.handle))
            && found.id == reading.id
        {
            found.fingerprint = reading.name.as_deref().map(fingerprint);
        }
    }

    /// The kernel id under which that is passed on.
    pub(super) fn found(&mut self, pid: u32, handle: u64, name: Option<&str>, id: u32) {
        let found = &mut self.processes.entry(pid).or_default().found;
        let before = found.get(&handle);
        if before.is_none() && found.len() >= MAX_HANDLES {
            return;
        }
        // One that could not be looked at was not looked at.
        let is_early = before.filter(|found| found.is_too_early());
        let new = Found {
            fingerprint: name.map(fingerprint),
            id,
            doubts: before.map_or(0, |found| found.doubts),
            looked_at: is_early.map_or_else(clock::monotonic, |found| found.looked_at),
        };
        found.insert(handle, new);
    }

    /// What was read there was the kernel's name.
    pub(super) fn settled(&mut self, pid: u32, handle: u64) {
        let process = self.processes.get_mut(&pid);
        if let Some(found) = process.and_then(|process| process.found.get_mut(&handle)) {
            found.doubts = 0;
        }
    }

    /// What was read there may have been another kernel's: it is forgotten.
    pub(super) fn doubt(&mut self, pid: u32, handle: u64) {
        let process = self.processes.get_mut(&pid);
        if let Some(found) = process.and_then(|process| process.found.get_mut(&handle)) {
            found.fingerprint = None;
            found.doubts += 1;
        }
    }

    /// Device code was unloaded: this module or library, or what nobody knows. Its handles may be used
    /// again for other kernels.
    pub(super) fn unloaded(&mut self, pid: u32, container: Option<u64>) -> Change {
        let Some(process) = self.processes.get_mut(&pid) else {
            return Change::default();
        };
        // Names that can be read again need not be trusted.
        let is_sure = process.is_sure;
        let is_gone = |told: &Told| match container {
            Some(container) => told.container == container || told.container == 0 && is_sure,
            None => is_sure,
        };
        let gone = process.told.iter().filter(|(_, told)| is_gone(told));
        let gone: Vec<u64> = gone.map(|(handle, _)| *handle).collect();
        for handle in &gone {
            process.forget_told(*handle);
        }
        let mut handles = gone;
        handles.extend(process.paired.drain());
        handles.extend(process.found.keys());
        Change { handles }
    }

    /// Those of which handles are known.
    pub(super) fn processes(&self) -> Vec<u32> {
        self.processes.keys().copied().collect()
    }

    /// The process has ended, or is another program now.
    pub(super) fn forget(&mut self, pid: u32) {
        if self.processes.remove(&pid).is_some() {
            self.lookout.forget(pid);
        }
    }
}

impl OfProcess {
    fn keep(&mut self, handle: u64, told: Told) {
        if self.told.len() < MAX_HANDLES && self.bytes + told.name.len() <= MAX_NAMES {
            self.bytes += told.name.len();
            self.told.insert(handle, told);
        }
    }

    /// Whether it had been told.
    fn forget_told(&mut self, handle: u64) -> bool {
        let told = self.told.remove(&handle);
        self.bytes -= told.as_ref().map_or(0, |told| told.name.len());
        told.is_some()
    }

    fn half(&mut self, stub: u64, half: Half) {
        if self.halves.len() >= MAX_HALVES {
            self.halves.clear();
        }
        self.halves.insert(stub, half);
    }
}

fn fingerprint(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
