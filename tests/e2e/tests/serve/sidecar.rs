//! `cudasnoop serve` at work, and workloads that go on step by step.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use e2e::{cudasnoop, dist};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::metrics::{Format, Series};

/// Long enough for anything that is going to happen at all.
const PATIENCE: Duration = Duration::from_secs(30);

/// Ports that are free.
pub(crate) const ANY_PORTS: [&str; 4] = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

/// Asks until there is an answer.
pub(crate) fn until<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() > end {
            return None;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// The answer's status and body.
pub(crate) fn get(address: SocketAddr, path: &str, headers: &str) -> (u16, Vec<u8>) {
    request("GET", address, path, headers)
}

/// Likewise, by another method.
pub(crate) fn request(
    method: &str,
    address: SocketAddr,
    path: &str,
    headers: &str,
) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let host = if headers.contains("Host:") {
        String::new()
    } else {
        format!("Host: {address}\r\n")
    };
    // Version 1.0: the body comes as it is, and ends with the connection.
    write!(stream, "{method} {path} HTTP/1.0\r\n{host}{headers}\r\n").expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let end = answer
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .expect("headers");
    let head = String::from_utf8_lossy(&answer[..end]);
    let status = head.split(' ').nth(1).expect("a status");
    (
        status.parse().expect("a number"),
        answer[end + 4..].to_vec(),
    )
}

/// Sees all calls, but where a test says otherwise: exact counts can be compared.
const EXACT: (&str, &str) = ("CUDASNOOP_MAX_OVERHEAD", "off");

/// `cudasnoop serve`, on ports that are free.
pub(crate) fn serve() -> Command {
    let mut command = cudasnoop();
    command.arg("serve");
    command.env("CUDASNOOP_LISTEN", "127.0.0.1:0");
    command.env("CUDASNOOP_ADMIN", "127.0.0.1:0");
    command.env(EXACT.0, EXACT.1);
    command
}

/// `cudasnoop serve` by a root without some capabilities.
pub(crate) fn without(capabilities: &str) -> Command {
    let mut command = Command::new("setpriv");
    command
        .arg(format!("--bounding-set={capabilities}"))
        .arg(dist().join("cudasnoop"))
        .arg("serve")
        .env(EXACT.0, EXACT.1)
        .stdin(Stdio::null());
    command
}

/// A `cudasnoop` that runs.
#[derive(Debug)]
pub(crate) struct Sidecar {
    child: Child,
    /// What it says on stderr.
    lines: Receiver<String>,
    pub(crate) public: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Sidecar {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = serve();
        command.args(arguments);
        Self::of(command)
    }

    pub(crate) fn start_without(capabilities: &str, arguments: &[&str]) -> Self {
        let mut command = without(capabilities);
        command.args(ANY_PORTS).args(arguments);
        Self::of(command)
    }

    /// Starts it, and waits until it listens.
    pub(crate) fn of(command: Command) -> Self {
        let (child, lines) = run(command);
        let line = wait_for(&lines, "metrics on http://");
        let mut addresses = line
            .split("http://")
            .skip(1)
            .map(|part| part.split('/').next().expect("an address"))
            .map(|address| address.parse().expect("an address"));
        let mut next = || addresses.next().expect("two addresses");
        let (public, admin) = (next(), next());
        Self {
            child,
            lines,
            public,
            admin,
        }
    }

    /// A recorder beside it.
    pub(crate) fn record(file: &Path, pid: &str) -> Recorder {
        let mut command = cudasnoop();
        command.arg("record").arg("-o").arg(file).args(["-p", pid]);
        let (child, lines) = run(command);
        wait_for(&lines, "is traced");
        Recorder(child)
    }

    /// Waits until it says this.
    pub(crate) fn says(&self, words: &str) {
        wait_for(&self.lines, words);
    }

    /// Waits until this process is traced.
    pub(crate) fn is_traced(&self, pid: &str) {
        wait_for(&self.lines, &format!("process {pid} is traced"));
    }

    pub(crate) fn metrics(&self, format: Format) -> Series {
        let accept = format!("Accept: {}\r\n", format.accept());
        let (status, text) = get(self.public, "/metrics", &accept);
        assert_eq!(status, 200);
        Series::parse(format, &text)
    }

    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8(get(self.public, path, "").1).expect("text")
    }

    pub(crate) fn admin(&self, path: &str) -> (u16, Vec<u8>) {
        get(self.admin, path, "")
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let (status, text) = self.admin(path);
        assert_eq!(status, 200);
        serde_json::from_slice(&text).expect("JSON")
    }

    /// Gets something that takes long, meanwhile. It has begun when this returns.
    pub(crate) fn download(&self, path: &str) -> JoinHandle<Vec<u8>> {
        let mut stream = TcpStream::connect(self.admin).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("sent");
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).expect("a header");
        }
        // The first piece: it records.
        stream.fill_buf().expect("a piece");
        thread::spawn(move || {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).expect("all of it");
            bytes
        })
    }

    /// Waits for it to end by itself.
    pub(crate) fn ends(mut self) {
        succeeds(&mut self.child);
    }

    /// Tells it to end, and waits for that.
    pub(crate) fn end(self, signal: Signal) {
        tell(&self.child, signal);
        self.ends();
    }
}

/// `cudasnoop record` at work.
#[derive(Debug)]
pub(crate) struct Recorder(Child);

impl Recorder {
    /// Tells it to end, and waits for that.
    pub(crate) fn end(mut self, signal: Signal) {
        tell(&self.0, signal);
        succeeds(&mut self.0);
    }
}

fn tell(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).expect("a process id");
    kill(Pid::from_raw(pid), signal).expect("told");
}

fn succeeds(child: &mut Child) {
    let status = until(|| child.try_wait().expect("waited"));
    assert!(status.expect("it ends").success());
}

fn run(mut command: Command) -> (Child, Receiver<String>) {
    let mut child = command.stderr(Stdio::piped()).spawn().expect("started");
    let stderr = BufReader::new(child.stderr.take().expect("piped"));
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    (child, lines)
}

/// The first line with this text.
fn wait_for(lines: &Receiver<String>, text: &str) -> String {
    let mut before = Vec::new();
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) if line.contains(text) => return line,
            Ok(line) => before.push(line),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                panic!("no `{text}` in {before:?}")
            }
        }
    }
}

/// A workload that waits at steps.
#[derive(Debug)]
pub(crate) struct Step {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<std::process::ChildStdout>,
    stderr: Receiver<String>,
}

impl Step {
    /// Starts it, and waits for its first step.
    pub(crate) fn start(mut command: Command, steps: &str) -> Self {
        command
            .args(["--wait", steps])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let (mut child, stderr) = run(command);
        wait_for(&stderr, "ready");
        Self {
            stdin: child.stdin.take().expect("piped"),
            stdout: BufReader::new(child.stdout.take().expect("piped")),
            stderr,
            child,
        }
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Lets it go on.
    pub(crate) fn go(&mut self) {
        writeln!(self.stdin).expect("written");
    }

    /// Whether it has not come to its next step yet.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.stderr.try_iter().any(|line| line.starts_with("ready"))
    }

    /// What it did, when it has done it.
    pub(crate) fn report(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) {
        succeeds(&mut self.child);
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        // Where a test has left it: it is ours.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        // Where a test has left it: it is ours.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
