//! The files themselves, read without running them: what a probe meets in the fakes is what it
//! meets in the real libraries.
//!
//! Facts about the real ones: `libcudart` 11.7 to 13.5 has one version node for all symbols,
//! named like the soname (`libcudart.so.11.0`, `.12`, `.13`), no `.symtab`, and its functions
//! begin with a push; `__cudaLaunchKernel` ends in a jump to `cudaLaunchKernel`. `libcuda` 580
//! has no version nodes, no `.symtab`, and begins with a push too. PyTorch's `libc10` has a
//! `.symtab`.

use std::collections::{BTreeMap, BTreeSet};

use agent_common::{APIS, Layer};

use object::{
    Endianness, Object, ObjectSection, ObjectSymbol,
    elf::{FileHeader64, SHT_DYNSYM, SHT_SYMTAB},
    read::elf::{ElfFile64, FileHeader, Sym},
};

use crate::fake_cuda::{FakeCuda, LIBRARIES, artefacts};

/// `push rbp`
const PUSH_RBP: u8 = 0x55;
/// `pop rbp`
const POP_RBP: u8 = 0x5d;
/// `jmp` with a 32-bit displacement.
const JUMP: u8 = 0xe9;

/// The 45 functions that PyTorch 2.15's `libc10_cuda.so` binds in `libcudart.so.13`.
const TORCH: [&str; 45] = [
    "cudaDeviceCanAccessPeer",
    "cudaDeviceEnablePeerAccess",
    "cudaDeviceGetDefaultMemPool",
    "cudaDeviceGetGraphMemAttribute",
    "cudaDeviceGetStreamPriorityRange",
    "cudaDeviceSetGraphMemAttribute",
    "cudaDeviceSynchronize",
    "cudaDriverGetVersion",
    "cudaEventCreateWithFlags",
    "cudaEventDestroy",
    "cudaEventElapsedTime",
    "cudaEventQuery",
    "cudaEventRecord",
    "cudaEventSynchronize",
    "cudaFree",
    "cudaFreeAsync",
    "cudaGetDevice",
    "cudaGetDeviceCount",
    "cudaGetDeviceProperties",
    "cudaGetDriverEntryPointByVersion",
    "cudaGetErrorName",
    "cudaGetErrorString",
    "cudaGetLastError",
    "cudaGraphNodeGetDependencies",
    "cudaIpcCloseMemHandle",
    "cudaIpcGetMemHandle",
    "cudaIpcOpenMemHandle",
    "cudaMalloc",
    "cudaMallocAsync",
    "cudaMemGetInfo",
    "cudaMemPoolGetAttribute",
    "cudaMemPoolSetAccess",
    "cudaMemPoolSetAttribute",
    "cudaMemPoolTrimTo",
    "cudaMemcpy",
    "cudaMemcpyAsync",
    "cudaMemcpyPeerAsync",
    "cudaSetDevice",
    "cudaStreamCreateWithPriority",
    "cudaStreamGetCaptureInfo",
    "cudaStreamIsCapturing",
    "cudaStreamQuery",
    "cudaStreamSynchronize",
    "cudaStreamWaitEvent",
    "cudaThreadExchangeStreamCaptureMode",
];

/// An exported function.
struct Export {
    address: u64,
    size: u64,
    version: Option<String>,
    /// Its first 16 bytes.
    code: Vec<u8>,
}

struct Library {
    name: &'static str,
    soname: String,
    exports: BTreeMap<String, Export>,
    has_symtab: bool,
    has_build_id: bool,
}

fn all() -> Vec<Library> {
    LIBRARIES
        .into_iter()
        .map(|(artefact, name)| read(artefact, name))
        .collect()
}

fn read(artefact: &str, name: &'static str) -> Library {
    let data = std::fs::read(artefacts().join(artefact)).expect("cargo built it");
    let data = data.as_slice();
    let endian = Endianness::Little;
    let file: ElfFile64<'_> = ElfFile64::parse(data).expect("an ELF file");
    let header = FileHeader64::<Endianness>::parse(data).expect("an ELF header");
    let sections = header.sections(endian, data).expect("sections");
    let symbols = sections
        .symbols(endian, data, SHT_DYNSYM)
        .expect("a dynamic symbol table");
    let versions = sections
        .versions(endian, data)
        .expect("valid version sections");
    let (dynamic, _) = sections
        .dynamic(endian, data)
        .expect("a valid dynamic section")
        .expect("a dynamic section");
    let soname = dynamic
        .iter()
        .find(|entry| entry.d_tag.get(endian) == object::elf::DT_SONAME)
        .map(|entry| u32::try_from(entry.d_val.get(endian)).expect("a string offset"))
        .and_then(|offset| symbols.strings().get(offset).ok())
        .map(|soname| String::from_utf8(soname.to_vec()).expect("ASCII"))
        .expect("a soname");

    let mut exports = BTreeMap::new();
    for (index, symbol) in symbols.enumerate() {
        if symbol.is_undefined(endian) || symbol.st_type() != object::elf::STT_FUNC {
            continue;
        }
        let symbol_name = symbol.name(endian, symbols.strings()).expect("a name");
        let version = versions.as_ref().and_then(|versions| {
            let index = versions.version_index(endian, index);
            let version = versions.version(index.into()).expect("a known version")?;
            Some(String::from_utf8(version.name().to_vec()).expect("ASCII"))
        });
        let address = symbol.st_value.get(endian);
        let code = file
            .sections()
            .find_map(|section| section.data_range(address, 16).ok().flatten())
            .expect("code lies in a section");
        let export = Export {
            address,
            size: symbol.st_size.get(endian),
            version,
            code: code.to_vec(),
        };
        exports.insert(
            String::from_utf8(symbol_name.to_vec()).expect("ASCII"),
            export,
        );
    }
    let has_symtab = sections
        .symbols(endian, data, SHT_SYMTAB)
        .is_ok_and(|table| !table.is_empty());
    let has_build_id = file.build_id().expect("valid notes").is_some();
    Library {
        name,
        soname,
        exports,
        has_symtab,
        has_build_id,
    }
}

#[test]
fn sonames_are_those_of_the_real_libraries() {
    for library in all() {
        assert_eq!(library.soname, library.name);
        assert!(library.has_build_id, "{}", library.name);
    }
}

#[test]
fn only_libcudart_has_versions_and_all_its_symbols_have_the_same() {
    for library in all() {
        assert!(
            library.exports.len() > 7,
            "{}: {}",
            library.name,
            library.exports.len()
        );
        let expected = library
            .name
            .starts_with("libcudart")
            .then(|| library.soname.clone());
        for (symbol, export) in &library.exports {
            assert_eq!(export.version, expected, "{}: {symbol}", library.name);
        }
    }
}

#[test]
fn every_export_begins_with_a_push_and_has_an_address_and_a_size_of_its_own() {
    for library in all() {
        let mut addresses = BTreeSet::new();
        for (symbol, export) in &library.exports {
            assert_eq!(
                export.code[..3],
                [PUSH_RBP, POP_RBP, JUMP],
                "{}: {symbol}",
                library.name
            );
            assert!(export.size > 0, "{}: {symbol}", library.name);
            assert!(
                addresses.insert(export.address),
                "{}: {symbol} is an alias",
                library.name
            );
        }
    }
}

#[test]
fn nvcc_launch_stubs_jump_to_the_launch_functions() {
    let runtimes = all()
        .into_iter()
        .filter(|library| library.name.starts_with("libcudart"));
    for library in runtimes {
        for target in ["cudaLaunchKernel", "cudaLaunchKernel_ptsz"] {
            let jumping = library.exports.get(&format!("__{target}"));
            if library.name == "libcudart.so.11.0" {
                assert!(jumping.is_none(), "CUDA 11 has no __{target}");
                continue;
            }
            let jumping = jumping.expect("CUDA 12 and later have it");
            let displacement = i32::from_le_bytes(jumping.code[3..7].try_into().expect("4 bytes"));
            let after = jumping.address + 7;
            assert_eq!(
                after.checked_add_signed(displacement.into()),
                Some(library.exports[target].address),
                "{}: __{target}",
                library.name
            );
        }
    }
}

/// Functions of the table that a real runtime lacks: exports of 11.8, of 12.9, and of 13.5.
const LACKING: [(&str, &[&str]); 3] = [
    (
        "libcudart.so.11.0",
        &[
            "cudaGetDeviceProperties_v2",
            "cudaGraphInstantiateWithParams",
            "cudaLaunchHostFunc_v2",
            "cudaLibraryEnumerateKernels",
            "cudaLibraryGetKernel",
            "cudaLibraryLoadData",
            "cudaLibraryLoadFromFile",
            "cudaLibraryUnload",
            "cudaMemcpy3DBatchAsync",
            "cudaMemcpy3DWithAttributesAsync",
            "cudaMemcpyBatchAsync",
            "cudaMemcpyWithAttributesAsync",
            "cudaStreamBeginCaptureToGraph",
        ],
    ),
    (
        "libcudart.so.12",
        &[
            "cudaLaunchHostFunc_v2",
            "cudaMemcpy3DWithAttributesAsync",
            "cudaMemcpyWithAttributesAsync",
        ],
    ),
    ("libcudart.so.13", &["cudaGetDeviceProperties_v2"]),
];

#[test]
fn of_the_probe_table_each_library_has_what_the_real_one_has() {
    for library in all() {
        let layer = match library.name {
            "libcuda.so.1" => Layer::Driver,
            "libc10.so" => Layer::Torch,
            _ => Layer::Runtime,
        };
        let lacking = LACKING
            .iter()
            .find(|(name, _)| *name == library.name)
            .map_or(&[][..], |(_, functions)| functions);
        for api in APIS.iter().filter(|api| api.layer == layer) {
            for symbol in api.symbols {
                assert_eq!(
                    library.exports.contains_key(*symbol),
                    !lacking.contains(&api.name),
                    "{}: {symbol}",
                    library.name
                );
            }
        }
        for name in lacking {
            assert!(
                APIS.iter().any(|api| api.name == *name),
                "{name} is not in the table"
            );
        }
    }
}

/// The table says since when a function is there: at least since the major that lacks it.
#[test]
fn what_a_runtime_lacks_is_newer_or_was_taken_away() {
    let majors = [11_080, 12_090, 13_050];
    for ((name, lacking), version) in LACKING.iter().zip(majors) {
        for api in APIS.iter().filter(|api| lacking.contains(&api.name)) {
            let taken_away = api.name == "cudaGetDeviceProperties_v2" && version > 13_000;
            assert!(api.since > version || taken_away, "{name}: {}", api.name);
        }
    }
}

/// Each workload row's symbol is an export, and each export of the table has a row.
#[test]
fn the_workload_calls_all_that_a_pair_has() {
    let fake = FakeCuda::new();
    let libraries = all();
    let exports = |name: &str| {
        let library = libraries.iter().find(|library| library.name == name);
        library
            .expect("one of ours")
            .exports
            .keys()
            .map(String::as_str)
    };
    for (cudart, _) in LACKING {
        let output = fake
            .command(env!("CARGO_BIN_EXE_every"))
            .args(["--cudart", cudart])
            .env("FAKE_CUDA_DEVICES", "2")
            .output()
            .expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{cudart}: {errors}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let called: BTreeSet<&str> = report["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| row["symbol"].as_str().expect("a symbol"))
            .collect();
        let table: BTreeSet<&str> = APIS.iter().flat_map(|api| api.symbols).copied().collect();
        let expected: BTreeSet<&str> = exports(cudart)
            .chain(exports("libcuda.so.1"))
            .filter(|symbol| table.contains(symbol))
            .collect();
        assert_eq!(called, expected, "{cudart}");
    }
}

#[test]
fn pytorch_finds_all_that_it_binds() {
    let library = read("libcudart_13.so", "libcudart.so.13");
    for symbol in TORCH {
        assert!(library.exports.contains_key(symbol), "{symbol}");
    }
}

#[test]
fn only_pytorchs_library_keeps_its_symtab() {
    for library in all() {
        assert_eq!(
            library.has_symtab,
            library.name == "libc10.so",
            "{}",
            library.name
        );
    }
}

#[test]
fn kernel_stubs_are_in_the_workloads_symtab() {
    for program in [env!("CARGO_BIN_EXE_mix"), env!("CARGO_BIN_EXE_demo")] {
        let data = std::fs::read(program).expect("cargo built it");
        let file: ElfFile64<'_> = ElfFile64::parse(data.as_slice()).expect("an ELF file");
        let names: BTreeSet<&str> = file
            .symbols()
            .filter_map(|symbol| symbol.name().ok())
            .collect();
        for kernel in workloads::kernels::ALL {
            let name = kernel.mangled.to_str().expect("ASCII");
            assert!(names.contains(name), "{program}: {name}");
        }
    }
}
