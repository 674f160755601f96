//! Workloads that stop at a step until they are told to go on.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStderr, ChildStdin, Command, Stdio},
};

use serde_json::Value;

use crate::{last_json, workload_command};

/// A workload that waits.
#[derive(Debug)]
pub struct Waiting {
    child: Child,
    stdin: ChildStdin,
    /// Where it says at which step it waits.
    stderr: BufReader<ChildStderr>,
    /// Its process id.
    pub pid: u32,
}

impl Waiting {
    /// Starts a workload, which waits at `step`: before it loads CUDA (`load`), or before it
    /// calls it (`call`).
    pub fn start(step: &str, name: &str, arguments: &[&str]) -> Self {
        let mut command = workload_command(name);
        command.args(["--wait", step]).args(arguments);
        Self::of(&mut command)
    }

    /// Starts a command that waits at the steps that its arguments name.
    pub fn of(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let mut waiting = Self {
            pid: child.id(),
            stdin: child.stdin.take().expect("piped"),
            stderr: BufReader::new(child.stderr.take().expect("piped")),
            child,
        };
        waiting.arrive();
        waiting
    }

    fn arrive(&mut self) {
        let mut line = String::new();
        self.stderr.read_line(&mut line).expect("a line");
        assert!(line.starts_with("ready"), "{line}");
    }

    /// Lets it go on to its next step.
    pub fn step(&mut self) {
        writeln!(self.stdin).expect("written");
        self.arrive();
    }

    /// Lets it go on to its end: what it reports.
    pub fn go(mut self) -> Value {
        writeln!(self.stdin).expect("written");
        drop(self.stdin);
        let mut stdout = Vec::new();
        let mut out = self.child.stdout.take().expect("piped");
        out.read_to_end(&mut stdout).expect("read");
        assert!(self.child.wait().expect("waited").success());
        last_json(&stdout)
    }
}
