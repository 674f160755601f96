//! Names of handles, with structures in this process.

use std::{ffi::CString, time::Duration};

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
/// The kernel id that a handle is looked at for.
const ID: u32 = 7;
/// The module that they are looked up in.
const MODULE: u64 = 5;

/// Whoever reads is waited for.
fn handles() -> Handles {
    Handles::new(Lookout::start(Duration::from_mins(1)).expect("a thread"))
}

/// What has become known by all that was learned. Nothing is at address 1.
fn learned(handles: &mut Handles) -> Change {
    handles.look(std::process::id(), 1, ID).1
}

/// Handles of a process that has shown where names are, by these.
fn shown() -> (Handles, [Structure; 3]) {
    let structures = NAMES.map(Structure::new);
    let mut handles = handles();
    for (name, structure) in NAMES.iter().zip(&structures) {
        handles.told(&by_name(structure.handle(), MODULE, name));
    }
    learned(&mut handles);
    (handles, structures)
}

#[test]
fn calls_that_tell_names_show_where_others_are() {
    let pid = std::process::id();
    let structures = NAMES.map(Structure::new);
    let hidden = Structure::new("hidden");
    let mut handles = handles();
    assert_eq!(read_name(handles.look(pid, hidden.handle(), ID)), None);
    handles.found(pid, hidden.handle(), None, 8);
    let mut changed = Vec::new();
    for (name, structure) in NAMES.iter().zip(&structures) {
        handles.told(&by_name(structure.handle(), MODULE, name));
        changed.push(learned(&mut handles).handles.contains(&hidden.handle()));
    }
    assert_eq!(changed, [false, false, true]);
    let name = read_name(handles.look(pid, hidden.handle(), ID));
    assert_eq!(name.as_deref(), Some("hidden"));
    handles.found(pid, hidden.handle(), name.as_deref(), 9);
    let (again, _) = handles.look(pid, hidden.handle(), ID);
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
    let mut handles = handles();
    handles.found(pid, hidden.handle(), None, 8);
    let mut changed = Vec::new();
    for (index, (name, structure)) in NAMES.iter().zip(&structures).enumerate() {
        let stub = 100 + index as u64;
        if index == 1 {
            handles.pair_shows(pid, stub, structure.handle());
            handles.stub_named(pid, stub, name);
        } else {
            handles.stub_named(pid, stub, name);
            handles.pair_shows(pid, stub, structure.handle());
        }
        changed.push(learned(&mut handles).handles.contains(&hidden.handle()));
    }
    assert_eq!(changed, [false, false, true]);
    let name = read_name(handles.look(pid, hidden.handle(), ID));
    assert_eq!(name.as_deref(), Some("hidden"));
}

#[test]
fn a_handle_that_is_used_again_is_another_kernel() {
    let pid = std::process::id();
    let (mut handles, _structures) = shown();
    let mut hidden = Structure::new("first");
    let first = read_name(handles.look(pid, hidden.handle(), ID));
    handles.found(pid, hidden.handle(), first.as_deref(), 9);
    let change = handles.unloaded(pid, Some(99));
    assert_eq!(change.handles, [hidden.handle()]);
    hidden.rename("second");
    let second = read_name(handles.look(pid, hidden.handle(), ID));
    assert_eq!(second.as_deref(), Some("second"));
}

#[test]
fn a_handle_of_a_stub_is_another_kernel_after_an_unloading() {
    let pid = std::process::id();
    let mut handles = handles();
    assert!(handles.stub_paired(pid, 70));
    assert_eq!(handles.unloaded(pid, Some(99)).handles, [70]);
    assert_eq!(read_name(handles.look(pid, 70, ID)), None);
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
        let name = read_name(handles.look(pid, handle, ID));
        assert_eq!(name.as_deref(), Some("hidden"));
        handles.found(pid, handle, name.as_deref(), id);
    };
    for id in [8, 9] {
        look_at(&mut handles, id);
        handles.unloaded(pid, Some(99));
        handles.doubt(pid, handle);
    }
    assert_eq!(handles.look(pid, handle, ID).0, Looked::NotNow(9));
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
    assert_eq!(handles.look(pid, handle, ID).0, Looked::Unread);
    handles.found(pid, handle, None, 11);
    assert_eq!(handles.look(pid, handle, ID).0, Looked::NotNow(11));
    // Once what was read is sure, it is looked at whenever something was unloaded.
    long_ago(&mut handles);
    look_at(&mut handles, 12);
    handles.settled(pid, handle);
    handles.unloaded(pid, Some(99));
    assert_eq!(handles.look(pid, handle, ID).0, Looked::Same(12));
}

#[test]
fn what_was_looked_up_in_a_module_is_gone_with_it() {
    let pid = std::process::id();
    let mut handles = handles();
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
    let mut handles = handles();
    handles.told(&by_name(1, MODULE, "name"));
    handles.unloaded(pid, None);
    assert_eq!(handles.name(pid, 1), Some("name"));
    let (mut handles, structures) = shown();
    handles.unloaded(pid, None);
    assert_eq!(handles.name(pid, structures[0].handle()), None);
    let name = read_name(handles.look(pid, structures[0].handle(), ID));
    assert_eq!(name.as_deref(), Some("one"));
}

#[test]
fn a_function_of_a_kernel_without_a_name_keeps_what_was_read() {
    let pid = std::process::id();
    let (mut handles, _structures) = shown();
    let hidden = Structure::new("hidden");
    let name = read_name(handles.look(pid, hidden.handle(), ID));
    handles.found(pid, hidden.handle(), name.as_deref(), 9);
    let change = handles.told(&record("cuKernelGetFunction", hidden.handle(), 7777, ""));
    assert_eq!(change, Change::default());
    let (again, _) = handles.look(pid, hidden.handle(), ID);
    assert_eq!(again, Looked::Same(9));
}

#[test]
fn a_process_that_cannot_be_looked_at_is_named_by_calls_alone() {
    let mut handles = handles();
    // No process has it: the kernel's process ids have 22 bits.
    let nobody = 1 << 23;
    assert_eq!(read_name(handles.look(nobody, 4096, ID)), None);
}

fn late(handle: u64, id: u32, name: &str) -> Finding {
    Finding::Name(Reading {
        pid: std::process::id(),
        handle,
        id,
        name: Some(name.to_owned()),
        read_at: 0,
    })
}

#[test]
fn what_cannot_be_read_at_once_is_told_later() {
    let pid = std::process::id();
    let (lookout, asked, answer) = Lookout::without_reader();
    let mut handles = Handles::new(lookout);
    for (handle, id) in [(70, 8), (71, 9)] {
        assert_eq!(handles.look(pid, handle, id).0, Looked::Later);
        handles.found(pid, handle, None, id);
    }
    // The queue is full, and nobody waits for room in it.
    assert_eq!(handles.look(pid, 72, 10).0, Looked::New(None));
    assert_eq!(handles.hear(), []);
    assert_eq!(asked.try_iter().count(), 2);
    for (handle, id) in [(70, 8), (71, 9)] {
        answer.send(late(handle, id, "name")).expect("heard");
    }
    let heard = handles.hear();
    assert_eq!(heard, [late(70, 8, "name"), late(71, 9, "name")]);
    // One of them has been looked at again meanwhile.
    handles.found(pid, 71, None, 11);
    for finding in heard {
        if let Finding::Name(reading) = finding {
            handles.read(&reading);
        }
    }
    for (handle, is_same) in [(70, true), (71, false)] {
        answer.send(late(handle, 12, "name")).expect("heard");
        let (looked, _) = handles.look(pid, handle, 12);
        assert_eq!(looked == Looked::Same(8), is_same, "{looked:?}");
    }
}

#[test]
fn what_is_found_out_of_others_meanwhile_is_kept() {
    let (lookout, _asked, answer) = Lookout::without_reader();
    let mut handles = Handles::new(lookout);
    let of = |pid| Finding::Places {
        pid,
        sure: true,
        surer: true,
    };
    let pid = std::process::id();
    handles.found(pid, 71, None, 8);
    for pid in [pid, pid + 1] {
        answer.send(of(pid)).expect("heard");
    }
    answer.send(late(70, 9, "name")).expect("heard");
    let (looked, change) = handles.look(pid, 70, 9);
    assert_eq!(looked, Looked::New(Some("name".to_owned())));
    assert_eq!(change.handles, [71]);
    assert_eq!(handles.hear(), [of(pid + 1)]);
}

#[test]
fn an_end_that_finds_no_room_is_told_when_there_is() {
    let (lookout, asked, _answer) = Lookout::without_reader();
    let mut handles = Handles::new(lookout);
    for handle in [70, 71] {
        handles.look(7, handle, ID);
    }
    handles.forget(7);
    assert_eq!(asked.try_iter().count(), 2);
    handles.hear();
    let told = asked.try_iter().next();
    assert!(matches!(told, Some(lookout::Question::Forget { pid: 7 })));
}
