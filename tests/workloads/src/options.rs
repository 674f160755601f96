//! Options that the workloads share.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};

/// Where CUDA is, and where the program waits for its tester.
#[derive(Args, Clone, Debug)]
pub struct CommonOptions {
    /// The CUDA runtime to open: a path, or a soname for the dynamic linker's search.
    #[arg(long, env = "CUDASNOOP_CUDART", default_value = "libcudart.so.12")]
    pub cudart: PathBuf,
    /// The CUDA driver to open, for calls that do not go through the runtime.
    #[arg(long, env = "CUDASNOOP_CUDA", default_value = "libcuda.so.1")]
    pub cuda: PathBuf,
    /// Print `ready STEP PID` on stderr and wait for a line on stdin at these steps.
    #[arg(long, value_delimiter = ',')]
    pub wait: Vec<Step>,
    /// A named pipe that the lines come by in place of stdin, which a container does not have.
    #[arg(long, value_name = "FIFO")]
    pub gate: Option<PathBuf>,
}

/// Where a workload can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// Before any CUDA library is opened.
    Load,
    /// After opening, before the first call.
    Call,
    /// Before device code is unloaded; `hidden` alone.
    Unload,
    /// After that.
    Unloaded,
    /// After the report was printed.
    Exit,
}

/// Which CUDA interface a workload uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layer {
    /// `libcudart`.
    Runtime,
    /// `libcuda`, opened by itself as a program with a static runtime does.
    Driver,
    /// One after the other.
    Both,
}

impl CommonOptions {
    /// Waits here, if the step was asked for. The end of stdin counts as a line.
    pub fn wait_at(&self, step: Step) {
        if !self.wait.contains(&step) {
            return;
        }
        let name = step.to_possible_value().expect("no step is hidden");
        eprintln!("ready {} {}", name.get_name(), std::process::id());
        match &self.gate {
            None => {
                let read = io::stdin().lock().read_line(&mut String::new());
                read.expect("a line can be read");
            }
            Some(gate) => pass(gate),
        }
    }
}

/// Waits for a line from a named pipe. Opening it waits for one who writes; where that is the one who
/// wrote the line before and has not closed it yet, it has no line.
fn pass(gate: &Path) {
    let mut line = String::new();
    while line.is_empty() {
        let pipe = File::open(gate).expect("the gate can be opened");
        let read = BufReader::new(pipe).read_line(&mut line);
        read.expect("the line can be read");
    }
}
