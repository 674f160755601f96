//! Finds the eBPF object that the binary embeds. `cargo xtask build` makes it.

use std::{env, path::PathBuf};

fn main() {
    println!("cargo:rerun-if-env-changed=CUDASNOOP_EBPF_OBJECT");
    let built = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/ebpf/cudasnoop.o");
    let object = env::var_os("CUDASNOOP_EBPF_OBJECT").map_or(built, PathBuf::from);
    println!("cargo:rerun-if-changed={}", object.display());
    assert!(
        object.is_file(),
        "no eBPF object at {}: run `cargo xtask build`, which makes it, or set \
         CUDASNOOP_EBPF_OBJECT to a prebuilt one",
        object.display()
    );
    let object = object.canonicalize().unwrap_or(object);
    println!(
        "cargo:rustc-env=CUDASNOOP_EBPF_OBJECT_PATH={}",
        object.display()
    );
}
