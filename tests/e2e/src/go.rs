use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// A program with the mark of a Go program, and the functions of a runtime in its own file. It waits
/// for its probes, which nothing holds it for: it loads no library of CUDA's. With `--wait` it says
/// `ready` and waits for a line first, as the workloads do.
const SOURCE: &str = r#"
    #include <stdio.h>
    #include <unistd.h>
    __attribute__((section(".go.buildinfo"), used)) static const char mark[] = "\xff Go buildinf:";
    static volatile long calls;
    __attribute__((noinline)) int cudaMalloc(void **out, unsigned long size) {
        *out = (void *)size;
        return calls++, 0;
    }
    __attribute__((noinline)) int cudaFree(void *block) { return calls++, block == 0; }
    int main(int count, char **arguments) {
        void *block;
        if (count > 1) { fprintf(stderr, "ready\n"); getchar(); }
        usleep(1000000);
        for (int i = 0; i < 100; i++) { cudaMalloc(&block, 1 << 20); cudaFree(block); }
        return 0;
    }
"#;

/// Compiles it in `folder`: 100 calls of `cudaMalloc` and of `cudaFree`, 1 MiB each.
pub fn go_program(folder: &Path) -> PathBuf {
    let (source, program) = (folder.join("go.c"), folder.join("go"));
    std::fs::write(&source, SOURCE).expect("written");
    crate::succeed(
        Command::new("cc")
            .args(["-O1", "-rdynamic", "-o"])
            .arg(&program)
            .arg(&source),
    );
    program
}
