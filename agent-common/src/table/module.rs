//! Device code: loading it, kernel handles and their names.

use super::{driver, runtime};
use crate::{
    api::{Api, Effect, Family, Probe, Shape},
    value::{Field, arg, int, out},
};

pub(super) const ROWS: [Api; 22] = [
    runtime(
        &["cudaLibraryLoadData"],
        Family::Module,
        Effect::ModuleLoad,
        &[out(0, Field::Handle)],
    )
    .since(12080)
    .doc("Loads device code from memory"),
    runtime(
        &["cudaLibraryLoadFromFile"],
        Family::Module,
        Effect::ModuleLoad,
        &[out(0, Field::Handle)],
    )
    .since(12080)
    .doc("Loads device code from a file"),
    runtime(
        &["cudaLibraryUnload"],
        Family::Module,
        Effect::ModuleUnload,
        &[arg(0, Field::Handle)],
    )
    .since(12080)
    .doc("Unloads device code"),
    runtime(
        &["cudaLibraryGetKernel"],
        Family::Module,
        Effect::KernelLookup,
        &[],
    )
    .shape(Shape::KernelByName)
    .since(12080)
    .doc("Looks up a kernel of a library by name"),
    runtime(
        &["cudaLibraryEnumerateKernels"],
        Family::Module,
        Effect::KernelLookup,
        &[arg(2, Field::Related), int(1, Field::Count)],
    )
    .since(12080)
    .doc("Lists the kernels of a library, without their names"),
    runtime(
        &["__cudaRegisterFunction"],
        Family::Module,
        Effect::Registration,
        &[],
    )
    .shape(Shape::Registration)
    .probe(Probe::Entry)
    .doc(
        "Makes a kernel of the program known; read for files without a symbol table, and no event",
    ),
    driver(
        &["cuModuleLoad"],
        Family::Module,
        Effect::ModuleLoad,
        &[out(0, Field::Handle)],
    )
    .doc("Loads device code from a file"),
    driver(
        &["cuModuleLoadData"],
        Family::Module,
        Effect::ModuleLoad,
        &[out(0, Field::Handle)],
    )
    .doc("Loads device code from memory"),
    driver(
        &["cuModuleLoadDataEx"],
        Family::Module,
        Effect::ModuleLoad,
        &[out(0, Field::Handle)],
    )
    .doc("Loads device code from memory, with options"),
    driver(
        &["cuModuleLoadFatBinary"],
        Family::Module,
        Effect::ModuleLoad,
        &[out(0, Field::Handle)],
    )
    .doc("Loads device code from memory, for several kinds of device"),
    driver(
        &["cuModuleUnload"],
        Family::Module,
        Effect::ModuleUnload,
        &[arg(0, Field::Handle)],
    )
    .core()
    .doc("Unloads device code"),
    driver(
        &["cuModuleGetFunction"],
        Family::Module,
        Effect::KernelLookup,
        &[],
    )
    .shape(Shape::KernelByName)
    .core()
    .doc("Looks up a kernel of a module by name"),
    driver(
        &["cuModuleEnumerateFunctions"],
        Family::Module,
        Effect::KernelLookup,
        &[arg(2, Field::Related), int(1, Field::Count)],
    )
    .since(12040)
    .doc("Lists the kernels of a module, without their names"),
    driver(
        &["cuLibraryLoadData"],
        Family::Module,
        Effect::ModuleLoad,
        &[out(0, Field::Handle)],
    )
    .since(12000)
    .doc("Loads device code from memory"),
    driver(
        &["cuLibraryLoadFromFile"],
        Family::Module,
        Effect::ModuleLoad,
        &[out(0, Field::Handle)],
    )
    .since(12000)
    .doc("Loads device code from a file"),
    driver(
        &["cuLibraryUnload"],
        Family::Module,
        Effect::ModuleUnload,
        &[arg(0, Field::Handle)],
    )
    .since(12000)
    .core()
    .doc("Unloads device code"),
    driver(
        &["cuLibraryGetKernel"],
        Family::Module,
        Effect::KernelLookup,
        &[],
    )
    .shape(Shape::KernelByName)
    .since(12000)
    .core()
    .doc("Looks up a kernel of a library by name"),
    driver(
        &["cuLibraryGetModule"],
        Family::Module,
        Effect::KernelLookup,
        &[out(0, Field::Handle), arg(1, Field::Related)],
    )
    .since(12000)
    .doc("Gives the module handle of a library handle"),
    driver(
        &["cuLibraryEnumerateKernels"],
        Family::Module,
        Effect::KernelLookup,
        &[arg(2, Field::Related), int(1, Field::Count)],
    )
    .since(12040)
    .doc("Lists the kernels of a library, without their names"),
    driver(
        &["cuKernelGetFunction"],
        Family::Module,
        Effect::KernelLookup,
        &[],
    )
    .shape(Shape::KernelFunction)
    .since(12000)
    .core()
    .doc("Gives the function handle of a kernel handle"),
    driver(
        &["cuKernelGetName"],
        Family::Module,
        Effect::KernelLookup,
        &[],
    )
    .shape(Shape::KernelName)
    .since(12030)
    .core()
    .doc("Gives the name of a kernel handle"),
    driver(
        &["cuFuncGetName"],
        Family::Module,
        Effect::KernelLookup,
        &[],
    )
    .shape(Shape::KernelName)
    .since(12030)
    .core()
    .doc("Gives the name of a function handle"),
];
