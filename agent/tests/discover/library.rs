//! What a file is to us: by what it defines, never by its name.

use std::os::unix::fs::MetadataExt;

use agent::discover::Refusal;
use agent_common::{ApiId, Layer};

use crate::fixture::{Folder, RUNTIME, library, resolve, text_segment, value};

#[test]
fn the_name_of_a_file_means_nothing() {
    let folder = Folder::new();
    for name in [
        "libcudart-d0da41ae.so.11.0",
        "_C.abi3.so",
        "libcudart_stub.so",
    ] {
        assert_eq!(
            library(&folder.shared(name, RUNTIME, &[])).layers,
            [Layer::Runtime]
        );
    }
    let empty = folder.shared("libcudart.so.12", "int unrelated(void) { return 0; }", &[]);
    assert!(resolve(&empty).expect("readable").is_none());
}

#[test]
fn imports_and_variables_are_no_functions() {
    let folder = Folder::new();
    let importer = "int cudaMalloc(void **, unsigned long); int cuInit(unsigned);
        int use(void) { void *block; return cudaMalloc(&block, 1) + cuInit(0); }";
    // The classic hash table lists imports too.
    for style in ["-Wl,--hash-style=gnu", "-Wl,--hash-style=sysv"] {
        let path = folder.shared("libtorch_like.so", importer, &[style]);
        assert!(resolve(&path).expect("readable").is_none());
    }
    let path = folder.shared(
        "variable.so",
        "int cudaMalloc = 1; int cuInit[4] = {1};",
        &[],
    );
    assert!(resolve(&path).expect("readable").is_none());
}

#[test]
fn what_is_missing_is_listed_and_stops_nothing() {
    let folder = Folder::new();
    let library = library(&folder.shared("old.so", RUNTIME, &[]));
    assert!(library.missing.contains(&"cudaLaunchKernelExC"));
    assert!(library.missing.contains(&"cudaMemcpyAsync_ptsz"));
    assert!(!library.missing.contains(&"cudaMalloc"));
    assert!(
        library
            .missing
            .iter()
            .all(|name| name.trim_start_matches('_').starts_with("cuda")),
        "{:?}",
        library.missing
    );
    assert_eq!(library.points.len(), 3);
}

#[test]
fn one_file_may_be_several_layers() {
    let folder = Folder::new();
    let source = format!(
        "{RUNTIME} int cuInit(unsigned flags) {{ return flags; }}
        int cuMemAlloc_v2(void **out, unsigned long size) {{ *out = 0; return size == 0; }}"
    );
    let library = library(&folder.shared("all.so", &source, &[]));
    assert_eq!(library.layers, [Layer::Runtime, Layer::Driver]);
    assert!(
        library
            .points
            .iter()
            .any(|point| point.symbol == "cuMemAlloc_v2")
    );
}

#[test]
fn two_names_for_one_piece_of_code_get_one_probe() {
    let folder = Folder::new();
    let source = r#"
        int cudaMemcpy(void *to) { return to == 0; }
        int cudaMemcpy_ptds(void *to) __attribute__((alias("cudaMemcpy")));
        int cudaMalloc(void **out) { *out = 0; return 1; }
    "#;
    let library = library(&folder.shared("aliases.so", source, &["-fno-ipa-icf"]));
    let points: Vec<_> = library.points.iter().map(|point| point.symbol).collect();
    assert_eq!(points, ["cudaMalloc", "cudaMemcpy"]);
    let [(name, refusal)] = &library.refused[..] else {
        panic!("{:?}", library.refused)
    };
    assert_eq!(*name, "cudaMemcpy_ptds");
    assert!(
        matches!(refusal, Refusal::SameCode("cudaMemcpy")),
        "{refusal}"
    );
}

#[test]
fn probes_that_would_never_fire_or_fire_twice_are_refused() {
    let folder = Folder::new();
    let path = folder.assembly(
        "odd.so",
        "
        .macro function name
        .globl \\name
        .type \\name, @function
        \\name:
        .endm
        .text
        function cudaMalloc
            push %rbx
            pop %rbx
            ret
        function cudaFree
            lock xadd %eax, (%rdi)
            ret
        function cudaLaunchKernel
        .Llaunch:
            push %rbp
            pop %rbp
            ret
        function cudaLaunchKernel_ptsz
            jmp .Llaunch
        .globl cudaSetDevice
        .type cudaSetDevice, @gnu_indirect_function
        cudaSetDevice:
            ret
        ",
    );
    let library = library(&path);
    let points: Vec<_> = library.points.iter().map(|point| point.symbol).collect();
    assert_eq!(points, ["cudaMalloc", "cudaLaunchKernel"]);
    let reason = |name: &str| {
        let refused = library.refused.iter().find(|(refused, _)| *refused == name);
        &refused
            .unwrap_or_else(|| panic!("{name}: {:?}", library.refused))
            .1
    };
    assert!(matches!(reason("cudaFree"), Refusal::Unprobeable(_)));
    assert!(matches!(
        reason("cudaLaunchKernel_ptsz"),
        Refusal::JumpsTo("cudaLaunchKernel")
    ));
    assert!(matches!(reason("cudaSetDevice"), Refusal::Indirect));
    for (name, refusal) in &library.refused {
        assert!(refusal.to_string().len() > 10, "{name}: {refusal}");
    }
}

#[test]
fn pytorch_is_probed_at_its_first_push() {
    const REPORT: &str = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
    let folder = Folder::new();
    let source = format!(
        "
        .text
        .globl {REPORT}
        .type {REPORT}, @function
        .byte 0x90
        {REPORT}:
            mov flag(%rip), %rax
            push %r14
            pop %r14
            ret
        .data
        flag: .quad 1
        "
    );
    let path = folder.assembly("libc10.so", &source);
    let library = library(&path);
    assert_eq!(library.layers, [Layer::Torch]);
    let [point] = &library.points[..] else {
        panic!("{:?}", library.points)
    };
    let address = value(&path, REPORT);
    let segment = text_segment(&path, address);
    assert_eq!(point.offset, address - segment.address + segment.offset + 7);
    assert!(point.emulated);
    assert_eq!(point.site.text_before, 1 + 7);
    assert_eq!(point.site.text_before + point.site.text_after, segment.size);
}

#[test]
fn the_fact_names_what_is_traced_missing_and_refused() {
    let folder = Folder::new();
    let source = format!(
        r#"{RUNTIME}
        int cudaMemcpy(void *to) {{ return to == 0; }}
        int cudaMemcpy_ptds(void *to) __attribute__((alias("cudaMemcpy")));"#
    );
    let path = folder.shared("fact.so", &source, &["-Wl,--build-id=sha1"]);
    let library = library(&path);
    let malloc = ApiId::by_name("cudaMalloc").expect("in the table");
    let fact = library.fact("/app/lib cudart.so".as_ref(), |api| api == malloc);
    assert_eq!(fact.path, "/app/lib cudart.so");
    assert_eq!(fact.probes, ["cudaMalloc"]);
    assert_eq!(fact.build_id, library.build_id);
    assert!(fact.missing.contains(&"cudaMemGetInfo".to_owned()));
    assert_eq!(
        fact.refused,
        [(
            "cudaMemcpy_ptds".to_owned(),
            "the same code as cudaMemcpy".to_owned()
        )]
    );
    let metadata = std::fs::metadata(&path).expect("exists");
    assert_eq!((fact.dev, fact.inode), (metadata.dev(), metadata.ino()));
}
