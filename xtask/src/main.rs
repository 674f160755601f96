//! `cargo xtask VERB`: everything that is done to this repository, from a bare machine to a demo.

mod bench;
mod build;
mod command;
mod demo;
mod docs;
mod doubles;
mod gpu_check;
mod image;
mod kernel;
mod layout;
mod lint;
mod progress;
mod setup;
mod test;
mod toolchain;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Sets up, builds, tests and shows cudasnoop.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", version, propagate_version = false)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Installs what a build and the tests need, or says what to run where it may not.
    Setup,
    /// Builds the eBPF object, the two commands, the fake CUDA libraries and the workloads into dist/.
    Build(build::Options),
    /// Builds, then runs the unit tests and the end-to-end tests (those need root).
    Test(test::Options),
    /// Checks the formatting and runs clippy; warnings are errors.
    Lint,
    /// Builds, records a small program and prints the report on it.
    Demo,
    /// Builds a folder, dist/gpu-check, that proves cudasnoop on a machine with a GPU and PyTorch.
    GpuCheck,
    /// Builds dist/cudasnoop-image.tar, the container image: one static program, without network.
    Image,
    /// Measures what tracing costs, and writes it to docs/overhead.md.
    Bench(bench::Options),
    /// Records a workload on Debian's Linux 6.1, in an emulated machine.
    Kernel(kernel::Options),
    /// Writes the generated documentation: docs/probes.md.
    Docs(docs::Options),
}

fn main() -> ExitCode {
    let result = match Cli::parse().verb {
        Verb::Setup => setup::run(),
        Verb::Build(options) => build::run(&options),
        Verb::Test(options) => test::run(&options),
        Verb::Lint => lint::run(),
        Verb::Demo => demo::run(),
        Verb::GpuCheck => gpu_check::run(),
        Verb::Image => image::run(),
        Verb::Kernel(options) => kernel::run(&options),
        Verb::Bench(options) => bench::run(&options),
        Verb::Docs(options) => docs::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}
