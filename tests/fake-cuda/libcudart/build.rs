//! Gives the library the soname, the version node and the shape of the real runtime of one
//! CUDA major: only a dynamic symbol table, a build id, jumps between its own exports bound to
//! itself.
//!
//! The version script works because no export is on rustc's own list (see `exports!`).

use std::{env, fs, path::PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=../build.rs");
    println!("cargo:rustc-check-cfg=cfg(cuda11, cuda12, cuda13)");
    let package = env::var("CARGO_PKG_NAME").expect("cargo sets it");
    let (major, soname) = match package.as_str() {
        "fake-libcudart-11" => ("cuda11", "libcudart.so.11.0"),
        "fake-libcudart-12" => ("cuda12", "libcudart.so.12"),
        "fake-libcudart-13" => ("cuda13", "libcudart.so.13"),
        other => panic!("no CUDA major is known for package {other}"),
    };
    println!("cargo:rustc-cfg={major}");
    println!("cargo:rustc-env=SONAME={soname}");

    let script = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("versions");
    let node = format!("{soname} {{ global: cuda*; __cuda*; fake_*; local: *; }};\n");
    fs::write(&script, node).expect("OUT_DIR can be written");
    for argument in [
        format!("-soname,{soname}"),
        format!("--version-script={}", script.display()),
        "--build-id=sha1".to_owned(),
        "--strip-all".to_owned(),
        "-Bsymbolic-functions".to_owned(),
    ] {
        println!("cargo:rustc-cdylib-link-arg=-Wl,{argument}");
    }
}
