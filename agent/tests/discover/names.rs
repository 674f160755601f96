//! Names for addresses in running processes.

use std::{fs, process::Command};

use agent::{
    discover::{Mappings, Process},
    names::{Resolution, Resolver},
};

use crate::fixture::{Folder, Program, hex, run};

/// Kernels as compilers leave them: a local function, and one under its stub's name.
const KERNELS: &str = r#"
    #include <cstdio>
    #include <sys/mman.h>
    #include <dlfcn.h>
    template <typename T> static __attribute__((noinline, used)) void kernel(T *data) { *data += 1; }
    __attribute__((noinline, used)) static void __device_stub__Z3addPi(int *data) { *data += 2; }
    extern "C" __attribute__((visibility("hidden"))) int variable;
    int variable;
    extern "C" __attribute__((visibility("default"))) void show() {
        void *anonymous = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        std::printf("%p %p %p %p\n", (void *)kernel<float>, (void *)__device_stub__Z3addPi,
            (void *)&variable, anonymous);
        std::fflush(stdout);
        std::getchar();
    }
"#;

const MAIN: &str = "extern \"C\" void show(); int main() { show(); }";

struct Kernels {
    folder: Folder,
    program: Program,
    /// The template's, the stub's, a variable's, code in no file.
    addresses: Vec<u64>,
}

fn kernels(library_flags: &[&str]) -> Kernels {
    let folder = Folder::new();
    let flags = [&["-shared", "-fPIC"], library_flags].concat();
    let library = folder.compile("libkernels.so", "kernels.cpp", KERNELS, &flags);
    let library = library.to_str().expect("UTF-8");
    let program = folder.compile("main", "main.cpp", MAIN, &[library]);
    let mut program = Program::start(&mut Command::new(program));
    let addresses = program.line().split(' ').map(hex).collect();
    Kernels {
        folder,
        program,
        addresses,
    }
}

/// Has `resolver` know what the process maps now.
fn observe(resolver: &mut Resolver, pid: u32) {
    let process = Process::open(pid).expect("lives");
    let program = process.program().expect("readable");
    resolver.remember(pid, program, Mappings::read(&process).expect("readable"));
}

#[test]
fn local_functions_are_named_and_stubs_give_way() {
    let Kernels {
        folder,
        program,
        addresses,
    } = kernels(&[]);
    let module = Some(
        folder
            .path("libkernels.so")
            .to_str()
            .expect("UTF-8")
            .to_owned(),
    );
    let mut resolver = Resolver::default();
    let pid = program.pid();

    let kernel = resolver.resolve(pid, addresses[0]);
    assert_eq!(kernel.module, module);
    let name = kernel.name.expect("in .symtab");
    let demangled = run(Command::new("c++filt").arg(&name));
    assert_eq!(demangled.trim_end(), "void kernel<float>(float*)");

    let stub = resolver.resolve(pid, addresses[1]);
    assert_eq!(
        stub,
        Resolution {
            name: Some("_Z3addPi".to_owned()),
            module: module.clone()
        }
    );

    // Inside a function is not its beginning; the module is known all the same.
    let inside = resolver.resolve(pid, addresses[0] + 1);
    assert_eq!(
        inside,
        Resolution {
            name: None,
            module: module.clone()
        }
    );
    assert_eq!(resolver.module_at(pid, addresses[0] + 1), module);
}

#[test]
fn what_is_no_code_of_a_file_is_unknown() {
    let Kernels {
        program, addresses, ..
    } = kernels(&[]);
    let mut resolver = Resolver::default();
    for address in [addresses[2], addresses[3], 0, 1, u64::MAX] {
        assert_eq!(
            resolver.resolve(program.pid(), address),
            Resolution::default(),
            "{address:x}"
        );
        assert_eq!(
            resolver.module_at(program.pid(), address),
            None,
            "{address:x}"
        );
    }
    assert_eq!(
        resolver.resolve(4_194_305, addresses[0]),
        Resolution::default()
    );
}

#[test]
fn a_stripped_file_has_a_module_and_no_names() {
    let Kernels {
        program, addresses, ..
    } = kernels(&["-s"]);
    let resolution = Resolver::default().resolve(program.pid(), addresses[0]);
    assert!(resolution.module.is_some());
    assert_eq!(resolution.name, None);
}

#[test]
fn a_process_that_is_gone_is_remembered() {
    let Kernels {
        folder,
        mut program,
        addresses,
    } = kernels(&[]);
    let (mut observer, mut late) = (Resolver::default(), Resolver::default());
    observe(&mut observer, program.pid());
    program.end();
    let known = observer.resolve(program.pid(), addresses[1]);
    assert_eq!(known.name.as_deref(), Some("_Z3addPi"));
    // A child that was never seen alive mapped what its parent did.
    let child = 4_194_305;
    observer.fork(program.pid(), child);
    assert_eq!(observer.resolve(child, addresses[1]), known);
    assert_eq!(
        late.resolve(program.pid(), addresses[1]),
        Resolution::default()
    );

    observer.forget(program.pid());
    assert_eq!(
        observer.resolve(program.pid(), addresses[1]),
        Resolution::default()
    );
    drop(folder);
}

#[test]
fn a_file_that_was_replaced_gives_no_wrong_names() {
    let Kernels {
        folder,
        mut program,
        addresses,
    } = kernels(&[]);
    let mut resolver = Resolver::default();
    observe(&mut resolver, program.pid());
    program.end();
    // As an upgrade does: another file takes its place.
    let renamed = KERNELS.replace("Z3add", "Z3sub");
    let other = folder.compile("other.so", "other.cpp", &renamed, &["-shared", "-fPIC"]);
    fs::rename(other, folder.path("libkernels.so")).expect("renames");
    let resolution = resolver.resolve(program.pid(), addresses[1]);
    assert_eq!(resolution.name, None);
    assert!(resolution.module.is_some());
}

#[test]
fn a_new_program_at_the_same_addresses_is_noticed() {
    let folder = Folder::new();
    // Both at a fixed address, so that one's function lies where the other's was.
    let compile = |name: &str| {
        let source = format!(
            r#"
            #include <stdio.h>
            #include <unistd.h>
            __attribute__((noinline)) int {name}(int x) {{ return x + 1; }}
            int main(int count, char **names) {{
                printf("%p\n", (void *){name});
                fflush(stdout);
                getchar();
                if (count > 1) execl(names[1], names[1], (char *)0);
                return {name}(count);
            }}"#
        );
        folder.compile(name, &format!("{name}.c"), &source, &["-no-pie"])
    };
    let mut program = Program::start(Command::new(compile("prior")).arg(compile("after")));
    let mut resolver = Resolver::default();
    let address = hex(&program.line());
    let name = |resolver: &mut Resolver| resolver.resolve(program.pid(), address).name;
    assert_eq!(name(&mut resolver).as_deref(), Some("prior"));
    program.go_on();
    assert_eq!(
        hex(&program.line()),
        address,
        "the case is worth nothing otherwise"
    );
    let name = resolver.resolve(program.pid(), address).name;
    assert_eq!(name.as_deref(), Some("after"));
}
