//! `cargo xtask demo`: records a small program and prints the report on it.
//!
//! With a GPU and PyTorch that is `tests/demo/torch_demo.py`; without, a workload on the fake CUDA
//! libraries, whose calls are real, and observed by the same probes, but move no data.

use std::{ffi::OsString, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, anyhow};

use crate::{
    build, command, doubles, layout,
    progress::{say, step},
    setup,
};

pub(crate) fn run() -> Result<()> {
    setup::everything()?;
    build::run(&build::Options::default())?;

    let target = match torch() {
        Ok(target) => {
            say("this machine has a GPU and PyTorch: recording tests/demo/torch_demo.py");
            target
        }
        Err(reason) => {
            say(format_args!("no real GPU work to record here: {reason:#}"));
            say("recording dist/workloads/demo on the FAKE CUDA libraries in dist/fake-cuda");
            fake()
        }
    };
    let recording = layout::target().join("demo.arrows");
    step("recording", || {
        command::run(&mut record(&target, &recording))
    })?;

    say("the report:");
    let cudasnoop = layout::dist().join("cudasnoop");
    command::run(Command::new(&cudasnoop).arg("report").arg(&recording))?;
    say(format_args!(
        "more: {} --help, on {}",
        cudasnoop.display(),
        recording.display()
    ));
    Ok(())
}

/// A program to record and the variable that it needs (`NAME=value`).
struct Target {
    words: Vec<OsString>,
    variable: OsString,
}

/// The PyTorch program, if Python here has a PyTorch that sees a GPU; else why not.
fn torch() -> Result<Target> {
    fs::metadata("/dev/nvidia0").context("no /dev/nvidia0")?;
    // Under sudo the user's packages would be out of sight: name Python and its path in full.
    let ask = "import os, sys, torch\n\
               torch.cuda.init()\n\
               print(sys.executable, os.pathsep.join(filter(None, sys.path)), sep='\\n')";
    let answer = command::output(Command::new("python3").args(["-c", ask])).map_err(|error| {
        let traceback = error.to_string();
        anyhow!("{}", traceback.lines().last().unwrap_or_default())
    })?;
    let (python, path) = answer
        .trim_end()
        .split_once('\n')
        .context("Python did not answer")?;
    let script = layout::root().join("tests/demo/torch_demo.py");
    Ok(Target {
        words: vec![python.into(), script.into()],
        variable: format!("PYTHONPATH={path}").into(),
    })
}

fn fake() -> Target {
    let mut variable = OsString::from("LD_LIBRARY_PATH=");
    variable.push(doubles::libraries());
    Target {
        words: vec![doubles::workload("demo").into()],
        variable,
    }
}

/// `cudasnoop record`, as root.
fn record(target: &Target, recording: &Path) -> Command {
    let mut command = if command::is_root() {
        Command::new("env")
    } else {
        say("loading eBPF programs takes root: sudo may ask for your password");
        let mut sudo = Command::new("sudo");
        sudo.args(["--preserve-env", "env"]);
        sudo
    };
    command
        .arg(&target.variable)
        .arg(layout::dist().join("cudasnoop"))
        .args(["record", "-o"])
        .arg(recording)
        .arg("--")
        .args(&target.words);
    command
}
