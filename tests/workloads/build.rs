//! Lets `mix-linked` need `libcudart.so.12` from its start, as PyTorch's libraries do.
//!
//! All that the program takes from the link is the name, so an empty library with that soname
//! will do; which library it gets is decided when it runs.

use std::{env, path::PathBuf, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let stub = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("libcudart.so");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&compiler)
        .args([
            "-shared",
            "-nostdlib",
            "-Wl,-soname,libcudart.so.12",
            "-x",
            "c",
            "/dev/null",
            "-o",
        ])
        .arg(&stub)
        .status();
    match status {
        Ok(status) if status.success() => {}
        failed => panic!("cannot make a stub library with {compiler}: {failed:?}; set CC"),
    }
    println!(
        "cargo:rustc-link-arg-bin=mix-linked=-Wl,--no-as-needed,{}",
        stub.display()
    );
}
