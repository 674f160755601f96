//! The runtime reaches the driver by calls, not jumps: the return address at the driver's entry
//! lies in the runtime, which is how a driver call is told to be a runtime call's child.

use std::process::Command;

use crate::fake_cuda::{FakeCuda, report};

/// A driver whose only answer is where it was called from.
const OBSERVER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static unsigned long from_runtime, from_elsewhere;

static void observe(void *return_address) {
    Dl_info info;
    if (dladdr(return_address, &info) && strstr(info.dli_fname, "libcudart")) from_runtime++;
    else from_elsewhere++;
}
static int plain(void) { observe(__builtin_return_address(0)); return 0; }
static int stores_one(int *out) { observe(__builtin_return_address(0)); *out = 1; return 0; }

static int answer(const char *name, void **out) {
    int stores = !strcmp(name, "cuMemAlloc") || !strcmp(name, "cuDeviceGetCount");
    *out = stores ? (void *)stores_one : (void *)plain;
    return 0;
}
int cuGetProcAddress(const char *name, void **out, int version, unsigned long flags) {
    return answer(name, out);
}
int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long flags, int *status) {
    *status = 0;
    return answer(name, out);
}
__attribute__((destructor)) static void tell(void) {
    fprintf(stderr, "from runtime %lu, from elsewhere %lu\n", from_runtime, from_elsewhere);
}
"#;

#[test]
fn the_return_address_at_the_drivers_entry_lies_in_the_runtime() {
    let fake = FakeCuda::new();
    let (source, observer) = (
        fake.path().join("observer.c"),
        fake.path().join("libcuda.so.1"),
    );
    std::fs::remove_file(&observer).expect("the fake driver was there");
    std::fs::write(&source, OBSERVER).expect("a temporary file");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O1", "-Wl,-soname,libcuda.so.1", "-o"])
        .args([&observer, &source])
        .status()
        .expect("a C compiler, as for the linking of this test");
    assert!(status.success());
    for cudart in ["libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13"] {
        let output = fake
            .command(env!("CARGO_BIN_EXE_mix"))
            .args(["--cudart", cudart, "--iterations", "3"])
            .output()
            .expect("it starts");
        assert_eq!(report(&output).errors.len(), 0);
        let told = String::from_utf8_lossy(&output.stderr);
        let counts: Vec<u64> = told
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|number| number.parse().ok())
            .collect();
        let [from_runtime, from_elsewhere] = counts[..] else {
            panic!("no counts in {told:?}");
        };
        // Three rounds make well over a hundred driver calls.
        assert!(from_runtime > 100, "{cudart}: {told}");
        assert_eq!(from_elsewhere, 0, "{cudart}: {told}");
    }
}
