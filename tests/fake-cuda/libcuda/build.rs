//! Gives the library the name and the shape of the real driver: only a dynamic symbol table,
//! a build id, calls between its own exports bound to itself.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in [
        "-soname,libcuda.so.1",
        "--build-id=sha1",
        "--strip-all",
        "-Bsymbolic-functions",
    ] {
        println!("cargo:rustc-cdylib-link-arg=-Wl,{argument}");
    }
}
