//! `cudasnoop-analyzer`: the commands of `cudasnoop` that work on recordings, for machines
//! that have no CUDA, no eBPF and maybe no Linux.

use std::process::ExitCode;

use analyzer::cli::{self, Command};
use clap::Parser;

/// Analyses recordings made by cudasnoop
#[derive(Debug, Parser)]
#[command(version, after_help = cli::EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    match cli::run(&command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
