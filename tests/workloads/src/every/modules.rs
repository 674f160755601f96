//! Device code, and its kernels.

use super::{
    arguments::{Memory, int, registers},
    expected::nothing,
    session::{Session, text},
};
use crate::kernels;

const NAME: &std::ffi::CStr = c"_Z10every_callPf";
/// A file that is there on every Linux: nothing reads it.
const FILE: &std::ffi::CStr = c"/proc/self/exe";

/// A function of the driver to launch, found by calls that are expected like all others.
pub(super) fn function(session: &mut Session) -> u64 {
    let module = Memory::out();
    session.call(
        "cuModuleLoadData",
        &registers([module.at(), kernels::fat_binary() as u64]),
        nothing().handle_left(&module),
    );
    by_name(session, "cuModuleGetFunction", module.get())
}

fn by_name(session: &mut Session, symbol: &str, container: u64) -> u64 {
    let kernel = Memory::out();
    session.call(
        symbol,
        &registers([kernel.at(), container, text(NAME)]),
        nothing().handle_left(&kernel).related(container),
    );
    session.call_for(
        symbol,
        500,
        &registers([kernel.at(), container, text(c"")]),
        nothing().related(container),
    );
    kernel.get()
}

fn enumerate(session: &mut Session, symbol: &str, container: u64) {
    let kernels = Memory::of([0; 8]);
    session.call(
        symbol,
        &registers([kernels.at(), int(8), container]),
        nothing().related(container).count(8),
    );
}

fn unload(session: &mut Session, symbol: &str, container: u64) {
    session.call(symbol, &registers([container]), nothing().handle(container));
}

pub(super) fn driver(session: &mut Session) {
    let (module, image, file) = (Memory::out(), kernels::fat_binary() as u64, text(FILE));
    for (symbol, arguments) in [
        ("cuModuleLoad", registers([module.at(), file])),
        ("cuModuleLoadData", registers([module.at(), image])),
        (
            "cuModuleLoadDataEx",
            registers([module.at(), image, int(0), 0, 0]),
        ),
        ("cuModuleLoadFatBinary", registers([module.at(), image])),
    ] {
        session.call(symbol, &arguments, nothing().handle_left(&module));
        let module = module.get();
        let function = by_name(session, "cuModuleGetFunction", module);
        name(session, "cuFuncGetName", function);
        enumerate(session, "cuModuleEnumerateFunctions", module);
        unload(session, "cuModuleUnload", module);
    }
    let library = Memory::out();
    for (symbol, code) in [
        ("cuLibraryLoadFromFile", file),
        ("cuLibraryLoadData", image),
    ] {
        session.call(
            symbol,
            &registers([library.at(), code, 0, 0, int(0), 0]).stack([0, int(0)]),
            nothing().handle_left(&library),
        );
        let library = library.get();
        let kernel = by_name(session, "cuLibraryGetKernel", library);
        name(session, "cuKernelGetName", kernel);
        let function = Memory::out();
        session.call(
            "cuKernelGetFunction",
            &registers([function.at(), kernel]),
            nothing().handle_left(&function),
        );
        let module = Memory::out();
        session.call(
            "cuLibraryGetModule",
            &registers([module.at(), library]),
            nothing().handle_left(&module).related(library),
        );
        enumerate(session, "cuLibraryEnumerateKernels", library);
        unload(session, "cuLibraryUnload", library);
    }
}

fn name(session: &mut Session, symbol: &str, handle: u64) {
    let name = Memory::out();
    session.call(
        symbol,
        &registers([name.at(), handle]),
        nothing().handle_if_found(handle),
    );
}

/// Since CUDA 12.8.
pub(super) fn runtime(session: &mut Session) {
    let (library, image, file) = (Memory::out(), kernels::fat_binary() as u64, text(FILE));
    for (symbol, code) in [
        ("cudaLibraryLoadFromFile", file),
        ("cudaLibraryLoadData", image),
    ] {
        let loaded = session.call(
            symbol,
            &registers([library.at(), code, 0, 0, int(0), 0]).stack([0, int(0)]),
            nothing().handle_left(&library),
        );
        if !loaded {
            return;
        }
        let library = library.get();
        by_name(session, "cudaLibraryGetKernel", library);
        enumerate(session, "cudaLibraryEnumerateKernels", library);
        unload(session, "cudaLibraryUnload", library);
    }
}
