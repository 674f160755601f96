//! What the driver's kernel handles are called: told by the calls that look them up; of others, read in
//! the process, where its handles show where the driver keeps names.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use agent_common::{ApiId, KERNEL_NAME_CAPACITY, NameRecord, Shape, flags};
use rustc_hash::{FxHashMap, FxHashSet};

use super::clock;
use crate::{
    discover::{LookBudget, Memory, Process},
    names::{NamePlaces, Sight, Source},
};

/// Most handles of a process that are kept.
const MAX_HANDLES: usize = 1 << 18;
/// Bytes of names that calls told, of one process.
const MAX_NAMES: usize = 64 << 20;
/// Most processes whose memory is held open.
const MAX_OPEN: usize = 256;
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
#[derive(Debug, Default)]
pub(super) struct Handles {
    processes: FxHashMap<u32, OfProcess>,
    budget: LookBudget,
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
    lookout: Lookout,
}

/// Where a process's names are read.
#[derive(Debug, Default)]
struct Lookout {
    access: Access,
    places: NamePlaces,
}

/// A process's memory.
#[derive(Debug, Default)]
enum Access {
    #[default]
    Untried,
    Denied,
    Open(Memory),
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
    /// Something new; its name, where that can be found out.
    New(Option<String>),
}

/// What has changed of that which was known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// These handles may be other kernels than before.
    pub(super) handles: Vec<u64>,
}

impl Handles {
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
        let mut handles = Vec::new();
        if is_whole && is_ours {
            handles = self
                .learn(header.pid, handle, &name, Source::Driver)
                .handles;
        }
        if !is_same {
            handles.push(handle);
        }
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
    pub(super) fn stub_named(&mut self, pid: u32, stub: u64, name: &str) -> Change {
        let process = self.processes.entry(pid).or_default();
        if let Some(Half::Handle(handle)) = process.halves.remove(&stub) {
            return self.learn(pid, handle, name, Source::HostStub);
        }
        process.half(stub, Half::Name(name.to_owned()));
        Change::default()
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
    pub(super) fn pair_shows(&mut self, pid: u32, stub: u64, handle: u64) -> Change {
        let process = self.processes.entry(pid).or_default();
        if let Some(Half::Name(name)) = process.halves.remove(&stub) {
            return self.learn(pid, handle, &name, Source::HostStub);
        }
        process.half(stub, Half::Handle(handle));
        Change::default()
    }

    /// Learns where names are. Where that has become sure with this, handles that no call told of are
    /// worth another look.
    fn learn(&mut self, pid: u32, handle: u64, name: &str, source: Source) -> Change {
        self.open(pid);
        let process = self.processes.entry(pid).or_default();
        let Lookout { access, places } = &mut process.lookout;
        let is_surer = match access {
            Access::Open(memory) => places.learn((memory, &mut self.budget), handle, name, source),
            Access::Untried | Access::Denied => false,
        };
        process.change(is_surer)
    }

    /// What a handle is that is launched, and that no call told of; and what has changed with that.
    pub(super) fn look(&mut self, pid: u32, handle: u64) -> (Looked, Change) {
        let process = self.processes.entry(pid).or_default();
        if let Some(found) = process.found.get(&handle)
            && found.is_too_early()
        {
            let looked = match found.fingerprint {
                // Under the id of a name, it would have that name.
                Some(_) => Looked::New(None),
                None => Looked::NotNow(found.id),
            };
            return (looked, Change::default());
        }
        self.open(pid);
        let process = self.processes.entry(pid).or_default();
        let Lookout { access, places } = &mut process.lookout;
        let Sight { name, surer } = match access {
            Access::Open(memory) => places.name((memory, &mut self.budget), handle),
            Access::Untried | Access::Denied => Sight::default(),
        };
        let change = process.change(surer);
        match process.found.get(&handle) {
            Some(found) if found.fingerprint == name.as_deref().map(fingerprint) => {
                (Looked::Same(found.id), change)
            }
            _ => (Looked::New(name), change),
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
        let is_sure = process.lookout.places.is_sure();
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

    /// The process has ended, or is another program now.
    pub(super) fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// Opens a process's memory, if that has not been tried and not too many are open.
    fn open(&mut self, pid: u32) {
        let is_untried = |process: &OfProcess| matches!(process.lookout.access, Access::Untried);
        if !self.processes.get(&pid).is_none_or(is_untried) {
            return;
        }
        let is_open = |process: &&OfProcess| matches!(process.lookout.access, Access::Open(_));
        let open = self.processes.values().filter(is_open).count();
        let access = if open >= MAX_OPEN {
            Access::Denied
        } else {
            match Process::open(pid).and_then(Memory::open) {
                Ok(memory) => Access::Open(memory),
                Err(error) => {
                    tracing::debug!("kernels are named by calls alone: {error}");
                    Access::Denied
                }
            }
        };
        self.processes.entry(pid).or_default().lookout.access = access;
    }
}

impl OfProcess {
    fn change(&self, is_surer: bool) -> Change {
        let handles = if is_surer {
            self.found.keys().copied().collect()
        } else {
            Vec::new()
        };
        Change { handles }
    }

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
mod tests {
    use std::ffi::CString;

    use agent_common::{APIS, Header, RecordKind};

    use super::*;

    /// What a handle points to in this process, which stands for the traced one.
    struct Structure {
        words: Box<[u64; 64]>,
        name: CString,
    }

    impl Structure {
        fn new(name: &str) -> Self {
            let mut structure = Self {
                words: Box::new([2; 64]),
                name: CString::default(),
            };
            structure.rename(name);
            structure
        }

        /// The same address is another kernel's.
        fn rename(&mut self, name: &str) {
            self.name = CString::new(name).expect("no NUL in it");
            self.words[1] = self.name.as_ptr() as u64;
        }

        fn handle(&self) -> u64 {
            self.words.as_ptr() as u64
        }
    }

    fn record(function: &str, handle: u64, origin: u64, text: &str) -> NameRecord {
        let api = APIS.iter().position(|api| api.name == function);
        let mut name = [0; KERNEL_NAME_CAPACITY];
        name[..text.len()].copy_from_slice(text.as_bytes());
        NameRecord {
            header: Header {
                timestamp: 1,
                pid: std::process::id(),
                tid: 1,
                kind: RecordKind::KernelName as u8,
                reserved: 0,
                api: u16::try_from(api.expect("in the table")).expect("few"),
                flags: 0,
            },
            handle,
            origin,
            length: text.len() as u64,
            name,
        }
    }

    fn by_name(handle: u64, module: u64, name: &str) -> NameRecord {
        record("cuModuleGetFunction", handle, module, name)
    }

    fn read_name((looked, _): (Looked, Change)) -> Option<String> {
        match looked {
            Looked::New(name) => name,
            other => panic!("{other:?}"),
        }
    }

    const NAMES: [&str; 3] = ["one", "two", "three"];
    /// The module that they are looked up in.
    const MODULE: u64 = 5;

    /// Handles of a process that has shown where names are, by these.
    fn shown() -> (Handles, [Structure; 3]) {
        let structures = NAMES.map(Structure::new);
        let mut handles = Handles::default();
        for (name, structure) in NAMES.iter().zip(&structures) {
            handles.told(&by_name(structure.handle(), MODULE, name));
        }
        (handles, structures)
    }

    #[test]
    fn calls_that_tell_names_show_where_others_are() {
        let pid = std::process::id();
        let structures = NAMES.map(Structure::new);
        let hidden = Structure::new("hidden");
        let mut handles = Handles::default();
        assert_eq!(read_name(handles.look(pid, hidden.handle())), None);
        handles.found(pid, hidden.handle(), None, 8);
        let mut changed = Vec::new();
        for (name, structure) in NAMES.iter().zip(&structures) {
            let change = handles.told(&by_name(structure.handle(), MODULE, name));
            changed.push(change.handles.contains(&hidden.handle()));
        }
        assert_eq!(changed, [false, false, true]);
        let name = read_name(handles.look(pid, hidden.handle()));
        assert_eq!(name.as_deref(), Some("hidden"));
        handles.found(pid, hidden.handle(), name.as_deref(), 9);
        let (again, _) = handles.look(pid, hidden.handle());
        assert_eq!(again, Looked::Same(9));
        // A call that tells the same is no change.
        let told = handles.told(&record("cuFuncGetName", hidden.handle(), 0, "hidden"));
        assert_eq!(told, Change::default());
        assert_eq!(handles.name(pid, hidden.handle()), Some("hidden"));
    }

    #[test]
    fn names_of_stubs_and_their_handles_show_it_whichever_comes_first() {
        let pid = std::process::id();
        let structures = NAMES.map(Structure::new);
        let hidden = Structure::new("hidden");
        let mut handles = Handles::default();
        handles.found(pid, hidden.handle(), None, 8);
        let mut changed = Vec::new();
        for (index, (name, structure)) in NAMES.iter().zip(&structures).enumerate() {
            let stub = 100 + index as u64;
            let changes = if index == 1 {
                [
                    handles.pair_shows(pid, stub, structure.handle()),
                    handles.stub_named(pid, stub, name),
                ]
            } else {
                [
                    handles.stub_named(pid, stub, name),
                    handles.pair_shows(pid, stub, structure.handle()),
                ]
            };
            changed.push(changes.map(|change| change.handles.contains(&hidden.handle())));
        }
        assert_eq!(changed, [[false, false], [false, false], [false, true]]);
        let name = read_name(handles.look(pid, hidden.handle()));
        assert_eq!(name.as_deref(), Some("hidden"));
    }

    #[test]
    fn a_handle_that_is_used_again_is_another_kernel() {
        let pid = std::process::id();
        let (mut handles, _structures) = shown();
        let mut hidden = Structure::new("first");
        let first = read_name(handles.look(pid, hidden.handle()));
        handles.found(pid, hidden.handle(), first.as_deref(), 9);
        let change = handles.unloaded(pid, Some(99));
        assert_eq!(change.handles, [hidden.handle()]);
        hidden.rename("second");
        let second = read_name(handles.look(pid, hidden.handle()));
        assert_eq!(second.as_deref(), Some("second"));
    }

    #[test]
    fn a_handle_of_a_stub_is_another_kernel_after_an_unloading() {
        let pid = std::process::id();
        let mut handles = Handles::default();
        assert!(handles.stub_paired(pid, 70));
        assert_eq!(handles.unloaded(pid, Some(99)).handles, [70]);
        assert_eq!(read_name(handles.look(pid, 70)), None);
        handles.told(&by_name(71, MODULE, "told"));
        assert!(!handles.stub_paired(pid, 71));
    }

    #[test]
    fn a_handle_that_is_doubtful_all_the_time_keeps_its_id() {
        let pid = std::process::id();
        let (mut handles, _structures) = shown();
        let hidden = Structure::new("hidden");
        let handle = hidden.handle();
        let look_at = |handles: &mut Handles, id| {
            let name = read_name(handles.look(pid, handle));
            assert_eq!(name.as_deref(), Some("hidden"));
            handles.found(pid, handle, name.as_deref(), id);
        };
        for id in [8, 9] {
            look_at(&mut handles, id);
            handles.unloaded(pid, Some(99));
            handles.doubt(pid, handle);
        }
        assert_eq!(handles.look(pid, handle).0, Looked::NotNow(9));
        // After a while it is looked at again.
        let long_ago = |handles: &mut Handles| {
            let process = handles.processes.get_mut(&pid).expect("known");
            let found = process.found.get_mut(&handle).expect("known");
            found.looked_at -= LOOK_AGAIN + 1;
        };
        long_ago(&mut handles);
        look_at(&mut handles, 10);
        // The id that has that name is not given to what may be another kernel.
        handles.unloaded(pid, Some(99));
        assert_eq!(read_name(handles.look(pid, handle)), None);
        handles.found(pid, handle, None, 11);
        assert_eq!(handles.look(pid, handle).0, Looked::NotNow(11));
        // Once what was read is sure, it is looked at whenever something was unloaded.
        long_ago(&mut handles);
        look_at(&mut handles, 12);
        handles.settled(pid, handle);
        handles.unloaded(pid, Some(99));
        assert_eq!(handles.look(pid, handle).0, Looked::Same(12));
    }

    #[test]
    fn what_was_looked_up_in_a_module_is_gone_with_it() {
        let pid = std::process::id();
        let mut handles = Handles::default();
        handles.module_of(pid, 80, 71);
        for (handle, module) in [(1, 70), (2, 71), (4, 80)] {
            let change = handles.told(&by_name(handle, module, "name"));
            assert_eq!(change.handles, [handle]);
            let again = handles.told(&by_name(handle, module, "name"));
            assert_eq!(again, Change::default());
        }
        // A function of the kernel 1, in whatever module that is.
        handles.told(&record("cuKernelGetFunction", 3, 1, ""));
        handles.told(&record("cuFuncGetName", 3, 0, "name"));
        assert_eq!(handles.name(pid, 3), Some("name"));
        let mut gone = handles.unloaded(pid, Some(70)).handles;
        gone.sort_unstable();
        assert_eq!(gone, [1, 3]);
        assert_eq!(handles.name(pid, 1), None);
        assert_eq!(handles.name(pid, 2), Some("name"));
        assert_eq!(handles.unloaded(pid + 1, Some(71)), Change::default());
        // The module of a library goes with the library.
        let mut gone = handles.unloaded(pid, Some(71)).handles;
        gone.sort_unstable();
        assert_eq!(gone, [2, 4]);
    }

    #[test]
    fn the_end_of_a_context_takes_what_can_be_read_again() {
        let pid = std::process::id();
        let mut handles = Handles::default();
        handles.told(&by_name(1, MODULE, "name"));
        handles.unloaded(pid, None);
        assert_eq!(handles.name(pid, 1), Some("name"));
        let (mut handles, structures) = shown();
        handles.unloaded(pid, None);
        assert_eq!(handles.name(pid, structures[0].handle()), None);
        let name = read_name(handles.look(pid, structures[0].handle()));
        assert_eq!(name.as_deref(), Some("one"));
    }

    #[test]
    fn a_function_of_a_kernel_without_a_name_keeps_what_was_read() {
        let pid = std::process::id();
        let (mut handles, _structures) = shown();
        let hidden = Structure::new("hidden");
        let name = read_name(handles.look(pid, hidden.handle()));
        handles.found(pid, hidden.handle(), name.as_deref(), 9);
        let change = handles.told(&record("cuKernelGetFunction", hidden.handle(), 7777, ""));
        assert_eq!(change, Change::default());
        let (again, _) = handles.look(pid, hidden.handle());
        assert_eq!(again, Looked::Same(9));
    }

    #[test]
    fn a_process_that_cannot_be_looked_at_is_named_by_calls_alone() {
        let mut handles = Handles::default();
        // No process has it: the kernel's process ids have 22 bits.
        let nobody = 1 << 23;
        assert_eq!(read_name(handles.look(nobody, 4096)), None);
    }
}
