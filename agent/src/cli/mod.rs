//! The command line of `cudasnoop`.

mod check;
mod config;
mod count;
mod doctor;
mod probes;
mod record;
mod serve;
mod session_args;
#[cfg(feature = "tui")]
mod top;
mod trace;
mod units;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// See every CUDA call of a running process, from outside, without touching it.
///
/// Probes on libcudart, libcuda and PyTorch's libc10 report allocations, launches, copies,
/// graphs and waits, each call once. Needs Linux 5.15 and root, or CAP_BPF, CAP_PERFMON and
/// CAP_SYS_PTRACE on Linux 6.6 and later.
#[derive(Debug, Parser)]
#[expect(clippy::doc_markdown, reason = "the doc comment is the text of --help")]
#[command(
    name = "cudasnoop",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  cudasnoop trace -- python3 train.py              watch its CUDA calls as they happen
  cudasnoop trace -p 4242 --api 'cudaMalloc*'      only allocations of a running process
  cudasnoop count -p 4242 --duration 10            how many calls of each kind in 10 s
  cudasnoop record -o run.arrows -- python3 serve.py
  cudasnoop report run.arrows                      what was in it
  cudasnoop top -p 4242                            who holds the memory, and rates, as they change
  cudasnoop doctor                                 can it work here, and what is missing
  cudasnoop serve -p 4242                          metrics for Prometheus, on port 9410

Exit codes: 0 success, 1 failure, 2 wrong usage; with `-- COMMAND`, the command's own.
Set CUDASNOOP_LOG=debug to see more on stderr."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Record CUDA calls into a file
    Record(record::RecordArgs),
    /// Print CUDA calls as they happen, one line each
    Trace(trace::TraceArgs),
    /// Count CUDA calls in the kernel, exactly and at any rate
    Count(count::CountArgs),
    /// Say whether tracing can work here, what is missing, and the line that helps
    Doctor(doctor::DoctorArgs),
    /// Serve metrics, health and an API beside what is traced
    Serve(serve::ServeArgs),
    /// Watch memory, rates and kernels as they change, on the terminal
    #[cfg(feature = "tui")]
    Top(top::TopArgs),
    /// List the functions that can be traced
    Probes(probes::ProbesArgs),
    #[command(flatten)]
    Analyze(analyzer::cli::Command),
}

impl Command {
    /// Whether it takes the whole terminal.
    const fn has_screen(&self) -> bool {
        #[cfg(feature = "tui")]
        return matches!(self, Self::Top(_));
        #[cfg(not(feature = "tui"))]
        return false;
    }
}

/// Runs the command line.
pub fn main() -> ExitCode {
    let cli: Cli = config::parse();
    crate::log::start(cli.command.has_screen());
    let result = match cli.command {
        Command::Record(args) => record::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Count(args) => count::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Serve(args) => serve::run(args),
        #[cfg(feature = "tui")]
        Command::Top(args) => top::run(args),
        Command::Probes(args) => probes::run(&args),
        Command::Analyze(command) => analyzer::cli::run(&command)
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            if is_broken_pipe(&error) {
                return ExitCode::SUCCESS;
            }
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// The reader of our output has gone, which is its right.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

/// To stderr: the error, and each cause that the text before does not tell already.
#[expect(
    clippy::print_stderr,
    reason = "the one place where an error reaches the user"
)]
fn complain(error: &anyhow::Error) {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    eprintln!("error: {text}");
}
