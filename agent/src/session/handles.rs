//! What the driver's kernel handles are called: told by the calls that look them up; of others, read in
//! the process, where those that were told show where the driver keeps names.

use agent_common::{ApiId, KERNEL_NAME_CAPACITY, NameRecord, Shape, flags};
use rustc_hash::FxHashMap;

use super::clock;
use crate::{
    discover::{Memory, Process},
    names::{self, NamePlaces, Source},
};

/// Most handles that are kept.
const MAX_HANDLES: usize = 1 << 20;
/// Most processes whose memory is held open.
const MAX_PROCESSES: usize = 256;
/// Most host stubs that wait for a name or for a handle.
const MAX_HALVES: usize = 1 << 12;
/// A handle that was doubtful so often is looked at only while nothing is unloaded, lest each look
/// makes a kernel of its own.
const MAX_DOUBTS: u32 = 2;
/// Nothing is unloaded if nothing was for so long, ns.
const QUIET: u64 = 1_000_000_000;

/// Handles of all processes.
#[derive(Debug, Default)]
pub(super) struct Handles {
    /// By process and handle.
    told: FxHashMap<(u32, u64), Told>,
    /// Kernel ids of handles that no call told of.
    found: FxHashMap<(u32, u64), Found>,
    processes: FxHashMap<u32, Lookout>,
    /// By process and host stub.
    halves: FxHashMap<(u32, u64), Half>,
}

#[derive(Debug)]
struct Told {
    name: String,
    /// The module or library that it was looked up in.
    container: u64,
}

#[derive(Debug)]
struct Found {
    name: Option<String>,
    id: u32,
    /// How often what was read there was in doubt.
    doubts: u32,
}

/// A process whose handles are looked at.
#[derive(Debug, Default)]
struct Lookout {
    /// `None` where it may not be read.
    memory: Option<Memory>,
    places: NamePlaces,
    /// When a call was entered that unloaded device code, ns of `CLOCK_MONOTONIC`; the last of them.
    unloaded_at: u64,
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
    /// Under this kernel id, until nothing is unloaded any more and it can be looked at.
    NotNow(u32),
    /// Something new; its name, where that can be found out.
    New(Option<String>),
}

/// What has changed of that which was known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// This handle is another kernel than before.
    pub(super) handle: Option<u64>,
    /// It has become sure where names are: handles that no call told of are worth another look.
    pub(super) surer: bool,
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
        let pid = header.pid;
        let length = usize::try_from(length)
            .unwrap_or(usize::MAX)
            .min(KERNEL_NAME_CAPACITY);
        let shape = ApiId(header.api).api().map(|api| api.shape);
        let kernel = (shape == Some(Shape::KernelFunction))
            .then(|| self.told.get(&(pid, origin)))
            .flatten();
        let name = if length > 0 {
            Some(String::from_utf8_lossy(&name[..length]).into_owned())
        } else {
            kernel.map(|kernel| kernel.name.clone())
        };
        let before = self.told.get(&(pid, handle));
        let found = self.found.remove(&(pid, handle));
        let found = found.and_then(|found| found.name);
        let container = if shape == Some(Shape::KernelByName) {
            origin
        } else {
            kernel.or(before).map_or(0, |told| told.container)
        };
        let is_same = before.map(|told| &told.name).or(found.as_ref()) == name.as_ref();
        let mut change = Change {
            handle: (!is_same).then_some(handle),
            surer: false,
        };
        let Some(name) = name.filter(|_| is_same || self.told.len() < MAX_HANDLES) else {
            self.told.remove(&(pid, handle));
            return change;
        };
        let is_whole = header.flags & flags::NAME_CUT == 0;
        let is_ours = header.flags & flags::FOREIGN_PID == 0;
        change.surer = is_whole && is_ours && self.learn(pid, handle, &name, Source::Driver);
        self.told.insert((pid, handle), Told { name, container });
        change
    }

    /// What calls said that the handle is called.
    pub(super) fn name(&self, pid: u32, handle: u64) -> Option<&str> {
        Some(self.told.get(&(pid, handle))?.name.as_str())
    }

    /// A kernel of the runtime is called this.
    pub(super) fn stub_named(&mut self, pid: u32, stub: u64, name: &str) -> Change {
        match self.halves.remove(&(pid, stub)) {
            Some(Half::Handle(handle)) => self.surer(pid, handle, name),
            Some(Half::Name(_)) | None => {
                self.half(pid, stub, Half::Name(name.to_owned()));
                Change::default()
            }
        }
    }

    /// The runtime passed that kernel on as this handle.
    pub(super) fn stub_paired(&mut self, pid: u32, stub: u64, handle: u64) -> Change {
        match self.halves.remove(&(pid, stub)) {
            Some(Half::Name(name)) => self.surer(pid, handle, &name),
            Some(Half::Handle(_)) | None => {
                self.half(pid, stub, Half::Handle(handle));
                Change::default()
            }
        }
    }

    fn half(&mut self, pid: u32, stub: u64, half: Half) {
        if self.halves.len() >= MAX_HALVES {
            self.halves.clear();
        }
        self.halves.insert((pid, stub), half);
    }

    fn surer(&mut self, pid: u32, handle: u64, name: &str) -> Change {
        Change {
            handle: None,
            surer: self.learn(pid, handle, name, Source::HostStub),
        }
    }

    /// True where the place of names has become sure with this.
    fn learn(&mut self, pid: u32, handle: u64, name: &str, source: Source) -> bool {
        let Lookout { memory, places, .. } = self.lookout(pid);
        memory
            .as_mut()
            .is_some_and(|memory| places.learn(memory, handle, name, source))
    }

    /// What a handle is that is launched, and that no call told of; and what has changed with that.
    pub(super) fn look(&mut self, pid: u32, handle: u64) -> (Looked, Change) {
        let before = self
            .found
            .get(&(pid, handle))
            .map(|found| (found.id, found.doubts));
        let lookout = self.lookout(pid);
        if let Some((id, doubts)) = before
            && doubts >= MAX_DOUBTS
            && clock::monotonic().saturating_sub(lookout.unloaded_at) < QUIET
        {
            return (Looked::NotNow(id), Change::default());
        }
        let Lookout { memory, places, .. } = lookout;
        let names::Found { name, surer } = memory
            .as_mut()
            .map(|memory| places.name(memory, handle))
            .unwrap_or_default();
        let change = Change {
            handle: None,
            surer,
        };
        match self.found.get(&(pid, handle)) {
            Some(found) if found.name == name => (Looked::Same(found.id), change),
            _ => (Looked::New(name), change),
        }
    }

    /// The kernel id under which that is passed on.
    pub(super) fn found(&mut self, pid: u32, handle: u64, name: Option<String>, id: u32) {
        let doubts = self
            .found
            .get(&(pid, handle))
            .map_or(0, |found| found.doubts);
        if self.found.len() < MAX_HANDLES {
            self.found.insert((pid, handle), Found { name, id, doubts });
        }
    }

    /// What was read there may have been another kernel's: it is forgotten.
    pub(super) fn doubt(&mut self, pid: u32, handle: u64) {
        if let Some(found) = self.found.get_mut(&(pid, handle)) {
            found.name = None;
            found.doubts += 1;
        }
    }

    /// The handles of a process that no call told of.
    pub(super) fn untold(&self, pid: u32) -> impl Iterator<Item = u64> {
        let of_process = move |(owner, handle): &(u32, u64)| (*owner == pid).then_some(*handle);
        self.found.keys().filter_map(of_process)
    }

    /// Device code was unloaded by a call that was entered at `timestamp`.
    pub(super) fn unloads(&mut self, pid: u32, timestamp: u64) {
        self.lookout(pid).unloaded_at = timestamp;
    }

    /// A module or library is unloaded, and its handles may be used again for other kernels: those that
    /// calls told of, which are forgotten.
    pub(super) fn unloaded(&mut self, pid: u32, container: u64) -> Vec<u64> {
        let is_gone =
            |(owner, _): &(u32, u64), told: &mut Told| *owner == pid && told.container == container;
        let gone = self.told.extract_if(is_gone);
        gone.map(|((_, handle), _)| handle).collect()
    }

    /// The process has ended, or is another program now.
    pub(super) fn forget(&mut self, pid: u32) {
        self.told.retain(|(owner, _), _| *owner != pid);
        self.found.retain(|(owner, _), _| *owner != pid);
        self.halves.retain(|(owner, _), _| *owner != pid);
        self.processes.remove(&pid);
    }

    fn lookout(&mut self, pid: u32) -> &mut Lookout {
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&pid) {
            self.processes.clear();
        }
        self.processes.entry(pid).or_insert_with(|| {
            let memory = Process::open(pid).and_then(Memory::open);
            if let Err(error) = &memory {
                tracing::debug!("kernels are named by calls alone: {error}");
            }
            Lookout {
                memory: memory.ok(),
                places: NamePlaces::default(),
                unloaded_at: 0,
            }
        })
    }
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

    #[test]
    fn calls_that_tell_names_teach_where_others_are() {
        let pid = std::process::id();
        let structures = ["one", "two", "three"].map(Structure::new);
        let hidden = Structure::new("hidden");
        let mut handles = Handles::default();
        assert_eq!(read_name(handles.look(pid, hidden.handle())), None);
        handles.found(pid, hidden.handle(), None, 8);
        let mut surer = Vec::new();
        for (name, structure) in ["one", "two", "three"].iter().zip(&structures) {
            surer.push(handles.told(&by_name(structure.handle(), 5, name)).surer);
        }
        assert_eq!(surer, [false, false, true]);
        assert_eq!(handles.untold(pid).collect::<Vec<_>>(), [hidden.handle()]);
        let name = read_name(handles.look(pid, hidden.handle()));
        assert_eq!(name.as_deref(), Some("hidden"));
        handles.found(pid, hidden.handle(), name, 9);
        let (again, _) = handles.look(pid, hidden.handle());
        assert_eq!(again, Looked::Same(9));
    }

    #[test]
    fn names_of_stubs_and_their_handles_teach_whichever_comes_first() {
        let pid = std::process::id();
        let names = ["one", "two", "three"];
        let structures = names.map(Structure::new);
        let mut handles = Handles::default();
        let mut surer = Vec::new();
        for (index, (name, structure)) in names.iter().zip(&structures).enumerate() {
            let stub = 100 + index as u64;
            let changes = if index == 1 {
                [
                    handles.stub_paired(pid, stub, structure.handle()),
                    handles.stub_named(pid, stub, name),
                ]
            } else {
                [
                    handles.stub_named(pid, stub, name),
                    handles.stub_paired(pid, stub, structure.handle()),
                ]
            };
            surer.push(changes.map(|change| change.surer));
        }
        assert_eq!(surer, [[false, false], [false, false], [false, true]]);
        let hidden = Structure::new("hidden");
        let name = read_name(handles.look(pid, hidden.handle()));
        assert_eq!(name.as_deref(), Some("hidden"));
    }

    #[test]
    fn a_handle_that_is_used_again_is_another_kernel() {
        let pid = std::process::id();
        let names = ["one", "two", "three"];
        let structures = names.map(Structure::new);
        let mut handles = Handles::default();
        for (name, structure) in names.iter().zip(&structures) {
            handles.told(&by_name(structure.handle(), 5, name));
        }
        let mut hidden = Structure::new("first");
        let first = read_name(handles.look(pid, hidden.handle()));
        handles.found(pid, hidden.handle(), first, 9);
        hidden.rename("second");
        let second = read_name(handles.look(pid, hidden.handle()));
        assert_eq!(second.as_deref(), Some("second"));
    }

    #[test]
    fn a_handle_that_is_doubtful_all_the_time_keeps_its_id() {
        let pid = std::process::id();
        let names = ["one", "two", "three"];
        let structures = names.map(Structure::new);
        let mut handles = Handles::default();
        for (name, structure) in names.iter().zip(&structures) {
            handles.told(&by_name(structure.handle(), 5, name));
        }
        let hidden = Structure::new("hidden");
        for id in [8, 9] {
            let name = read_name(handles.look(pid, hidden.handle()));
            assert_eq!(name.as_deref(), Some("hidden"));
            handles.found(pid, hidden.handle(), name, id);
            handles.unloads(pid, clock::monotonic());
            handles.doubt(pid, hidden.handle());
        }
        let (looked, _) = handles.look(pid, hidden.handle());
        assert_eq!(looked, Looked::NotNow(9));
        handles.unloads(pid, clock::monotonic() - 2 * QUIET);
        let name = read_name(handles.look(pid, hidden.handle()));
        assert_eq!(name.as_deref(), Some("hidden"));
    }

    #[test]
    fn what_was_looked_up_in_a_module_is_gone_with_it() {
        let pid = std::process::id();
        let mut handles = Handles::default();
        for (handle, module) in [(1, 70), (2, 71)] {
            let change = handles.told(&by_name(handle, module, "name"));
            assert_eq!(change.handle, Some(handle));
            let again = handles.told(&by_name(handle, module, "name"));
            assert_eq!(again.handle, None);
        }
        // A function of the kernel 1, in whatever module that is.
        handles.told(&record("cuKernelGetFunction", 3, 1, ""));
        handles.told(&record("cuFuncGetName", 3, 0, "name"));
        assert_eq!(handles.name(pid, 3), Some("name"));
        let mut gone = handles.unloaded(pid, 70);
        gone.sort_unstable();
        assert_eq!(gone, [1, 3]);
        assert_eq!(handles.name(pid, 1), None);
        assert_eq!(handles.name(pid, 2), Some("name"));
        assert_eq!(handles.unloaded(pid + 1, 71), [0; 0]);
    }

    #[test]
    fn a_process_that_cannot_be_looked_at_is_named_by_calls_alone() {
        let mut handles = Handles::default();
        // No process has it: the kernel's process ids have 22 bits.
        let nobody = 1 << 23;
        assert_eq!(read_name(handles.look(nobody, 4096)), None);
    }
}
