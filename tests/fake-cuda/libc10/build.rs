//! Gives the library the name of PyTorch's; like that one it keeps its `.symtab`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in ["-soname,libc10.so", "--build-id=sha1"] {
        println!("cargo:rustc-cdylib-link-arg=-Wl,{argument}");
    }
}
