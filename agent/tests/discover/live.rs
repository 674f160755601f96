//! Libraries in running processes.

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use agent::discover::{Libraries, Linker, Mappings, Process, ProcessError, Scan, Seen};
use agent_common::Layer;

use crate::fixture::{Folder, Program, RUNTIME, file_offset, run, text_segment, value};

/// Loads the libraries it is told to, says so, and waits; then again.
const LOADER: &str = r#"
    #include <dlfcn.h>
    #include <stdio.h>
    int main(int count, char **names) {
        for (int i = 1; i < count; i++) {
            if (!dlopen(names[i], RTLD_LAZY)) { puts(dlerror()); return 1; }
            puts("loaded");
            fflush(stdout);
            getchar();
        }
    }
"#;

fn loader(folder: &Folder) -> PathBuf {
    folder.compile("loader", "loader.c", LOADER, &["-ldl"])
}

fn scan(libraries: &mut Libraries, seen: &mut Seen, pid: u32) -> Scan {
    let process = Process::open(pid).expect("lives");
    libraries.scan(&process, &Mappings::read(&process).expect("readable"), seen)
}

/// The libraries of the runtime that a process maps, by path.
fn runtimes(scan: &Scan) -> Vec<&Path> {
    let found = scan
        .found
        .iter()
        .filter(|found| found.library.layers.contains(&Layer::Runtime));
    let mut paths: Vec<_> = found.map(|found| found.path.as_path()).collect();
    paths.sort_unstable();
    paths
}

#[test]
fn every_copy_is_found_whatever_its_name_and_each_once() {
    let folder = Folder::new();
    let names = [
        "libcudart-d0da41ae.so.11.0",
        "libcudart.so.12 X",
        "line\nend.so",
    ];
    let paths: Vec<_> = names
        .iter()
        .map(|name| folder.shared(name, RUNTIME, &[]))
        .collect();
    let stub = folder.shared("libcudart_stub.so", "int nothing(void) { return 0; }", &[]);
    let importer = "int cudaMalloc(void **, unsigned long);
        int use(void) { void *block; return cudaMalloc(&block, 1); }";
    let importer = folder.shared("libtorch.so", importer, &["-Wl,-z,lazy"]);
    let mut program = Program::start(
        Command::new(loader(&folder))
            .arg(stub)
            .args(&paths)
            .arg(importer),
    );
    for index in 0..5 {
        assert_eq!(program.line(), "loaded", "{index}");
        if index < 4 {
            program.go_on();
        }
    }
    let (mut libraries, mut seen) = (Libraries::default(), Seen::default());
    let first = scan(&mut libraries, &mut seen, program.pid());
    assert!(first.failures.is_empty(), "{:?}", first.failures);
    let mut shown = paths.clone();
    shown[2] = folder.path("line\\012end.so");
    shown.sort_unstable();
    assert_eq!(runtimes(&first), shown);
    for found in &first.found {
        let path = found.path.to_str().expect("UTF-8").replace("\\012", "\n");
        let malloc = found
            .library
            .points
            .iter()
            .find(|point| point.symbol == "cudaMalloc");
        assert_eq!(
            malloc.expect("defined").offset,
            file_offset(&paths[0], "cudaMalloc")
        );
        let attached = fs::read(found.library.file.attach_path()).expect("reads");
        assert!(attached == fs::read(&path).expect("reads"), "{path}");
    }
    // Nothing new the second time.
    let second = scan(&mut libraries, &mut seen, program.pid());
    assert!(second.found.is_empty() && second.failures.is_empty());
}

#[test]
fn a_library_that_comes_later_is_found_by_the_next_scan() {
    let folder = Folder::new();
    let early = folder.shared("early.so", "int nothing(void) { return 0; }", &[]);
    let late = folder.shared("late.so", RUNTIME, &[]);
    let mut program = Program::start(Command::new(loader(&folder)).args([&early, &late]));
    let (mut libraries, mut seen) = (Libraries::default(), Seen::default());
    program.line();
    assert!(runtimes(&scan(&mut libraries, &mut seen, program.pid())).is_empty());
    program.go_on();
    program.line();
    assert_eq!(
        runtimes(&scan(&mut libraries, &mut seen, program.pid())),
        [&late]
    );
}

#[test]
fn a_file_is_read_once_for_all_processes() {
    let folder = Folder::new();
    let path = folder.shared("shared.so", RUNTIME, &[]);
    let loader = loader(&folder);
    let mut programs = [(); 2].map(|()| Program::start(Command::new(&loader).arg(&path)));
    let mut libraries = Libraries::default();
    let [first, second] = programs.each_mut().map(|program| {
        program.line();
        scan(&mut libraries, &mut Seen::default(), program.pid())
            .found
            .remove(0)
            .library
    });
    assert!(Arc::ptr_eq(&first, &second));
}

#[test]
fn a_swapped_path_leads_nowhere_else() {
    let folder = Folder::new();
    let path = folder.shared("target.so", RUNTIME, &[]);
    let original = fs::read(&path).expect("reads");
    let mut program = Program::start(Command::new(loader(&folder)).arg(&path));
    program.line();
    fs::remove_file(&path).expect("removes");
    symlink("/etc/passwd", &path).expect("links");
    let scan = scan(
        &mut Libraries::default(),
        &mut Seen::default(),
        program.pid(),
    );
    // By its mapping where we may, else not at all: never what the link leads to.
    match &scan.found[..] {
        [found] => {
            let attached = fs::read(found.library.file.attach_path()).expect("reads");
            assert!(attached == original, "not the file that was mapped");
        }
        [] => assert!(
            scan.failures
                .iter()
                .any(|failure| failure.to_string().contains("no longer")),
            "{:?}",
            scan.failures
        ),
        more => panic!("{more:?}"),
    }
}

/// An image of two layers on two file systems, as container runtimes stack them.
#[test]
fn a_file_that_maps_and_stat_number_differently_is_found() {
    let folder = Folder::new();
    let probe = Command::new("unshare")
        .args(["-rm", "true"])
        .output()
        .expect("unshare runs");
    if !probe.status.success() {
        let reason = String::from_utf8_lossy(&probe.stderr).into_owned();
        assert!(
            reason.contains("not permitted") || reason.contains("denied"),
            "{reason}"
        );
        eprintln!("skipped: no user namespaces here: {reason}");
        return;
    }
    let loader = loader(&folder);
    let path = folder.shared("libcudart.so.12", RUNTIME, &[]);
    let [lower, other, merged] = ["lower", "other", "merged"].map(|name| {
        let path = folder.path(name);
        fs::create_dir(&path).expect("makes");
        path.to_str().expect("UTF-8").to_owned()
    });
    let script = format!(
        "mount -t tmpfs none {lower} && cp {} {lower} &&
        mount -t overlay -o xino=off,lowerdir={lower}:{other} none {merged} &&
        exec {} {merged}/libcudart.so.12",
        path.display(),
        loader.display()
    );
    let mut program = Program::start(Command::new("unshare").args(["-rm", "sh", "-ec", &script]));
    assert_eq!(program.line(), "loaded");
    let process = Process::open(program.pid()).expect("lives");
    let mappings = Mappings::read(&process).expect("readable");
    let shown = folder.path("merged/libcudart.so.12");
    let mapped = mappings
        .files()
        .iter()
        .find(|file| file.path == shown)
        .expect("mapped");
    let real = format!("/proc/{}/root{}", program.pid(), shown.display());
    let device = fs::metadata(real).expect("exists").dev();
    assert_ne!(device, mapped.device, "the case is worth nothing otherwise");

    let scan = Libraries::default().scan(&process, &mappings, &mut Seen::default());
    assert!(scan.failures.is_empty(), "{:?}", scan.failures);
    assert_eq!(runtimes(&scan), [&shown]);
}

#[test]
fn a_process_whose_first_thread_has_ended_is_still_read() {
    let folder = Folder::new();
    let source = format!(
        r#"
        #include <pthread.h>
        #include <stdio.h>
        #include <unistd.h>
        {RUNTIME}
        static void *work(void *leader) {{
            pthread_join((pthread_t)leader, 0);
            puts("alone");
            fflush(stdout);
            pause();
            return 0;
        }}
        int main(void) {{
            pthread_t thread;
            pthread_create(&thread, 0, work, (void *)pthread_self());
            pthread_exit(0);
        }}"#
    );
    let path = folder.compile(
        "leaderless",
        "leaderless.c",
        &source,
        &["-pthread", "-rdynamic"],
    );
    let mut program = Program::start(&mut Command::new(&path));
    assert_eq!(program.line(), "alone");
    let process = Process::open(program.pid()).expect("lives");
    assert!(process.leader_exited());
    let facts = process.facts(false).expect("readable");
    assert_eq!(Path::new(&facts.exe), path);
    assert_eq!(facts.title, path.to_str().expect("UTF-8"));
    assert_eq!(
        runtimes(&scan(
            &mut Libraries::default(),
            &mut Seen::default(),
            program.pid()
        )),
        [&path]
    );
}

#[test]
fn a_process_that_has_ended_is_said_to_have_ended() {
    let mut program = Program::start(&mut Command::new("cat"));
    let pid = program.pid();
    let process = Process::open(pid).expect("lives");
    program.end();
    // Its end of the pipe closes just before the kernel calls it a zombie.
    let error = loop {
        match Process::open(pid) {
            Ok(_) => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ProcessError::Ended { .. }), "{error}");
    assert!(process.facts(false).is_err());
}

#[test]
fn children_and_threads_are_told_apart() {
    let mut program = Program::start(Command::new("sh").args(["-c", "sleep 600 & echo $!; wait"]));
    let child: u32 = program.line().parse().expect("a process id");
    let process = Process::open(program.pid()).expect("lives");
    assert_eq!(process.children().expect("readable"), [child]);
    assert_eq!(
        Process::open(child)
            .expect("lives")
            .facts(false)
            .expect("readable")
            .parent,
        program.pid()
    );
    run(Command::new("kill").arg(child.to_string()));

    let thread = std::thread::spawn(|| {
        let tid = nix::unistd::gettid().as_raw().cast_unsigned();
        Process::open(tid).expect_err("a thread")
    });
    let error = thread.join().expect("joins");
    let own = std::process::id();
    assert!(
        matches!(error, ProcessError::Thread { pid, .. } if pid == own),
        "{error}"
    );
}

#[test]
fn the_dynamic_linker_is_found_in_a_process_and_before_it_runs() {
    let folder = Folder::new();
    let loader = loader(&folder);
    let mut program =
        Program::start(Command::new(&loader).arg(folder.shared("a.so", RUNTIME, &[])));
    program.line();
    let process = Process::open(program.pid()).expect("lives");
    let running = Linker::of_process(&process)
        .expect("readable")
        .expect("dynamic");
    let command = Linker::of_command(&loader)
        .expect("readable")
        .expect("dynamic");
    assert_eq!(running.file.identity(), command.file.identity());
    assert_eq!(
        (running.debug_state, running.r_debug),
        (command.debug_state, command.r_debug)
    );

    // It is mapped by the process, and holds what readelf says.
    let mappings = Mappings::read(&process).expect("readable");
    let path = fs::canonicalize(command.file.attach_path()).expect("exists");
    assert!(
        mappings.files().iter().any(|file| file.path == path),
        "{mappings:?}"
    );
    let function = value(&path, "_dl_debug_state");
    let list = value(&path, "_r_debug");
    assert_eq!(
        command.r_debug,
        Some(list.wrapping_sub(function).cast_signed())
    );
    let text = text_segment(&path, function);
    assert_eq!(command.debug_state, function - text.address + text.offset);

    let source = "int main(void) { return 0; }";
    let fixed = folder.compile("static", "static.c", source, &["-static"]);
    assert!(Linker::of_command(&fixed).expect("readable").is_none());
    assert!(Linker::of_command(Path::new("/nowhere")).is_err());
    let script = folder.path("script");
    fs::write(&script, "#!/bin/sh\n").expect("writes");
    assert!(Linker::of_command(&script).is_err());
}
