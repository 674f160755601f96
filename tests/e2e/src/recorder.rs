//! A recorder in the background, and what it says.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::cudasnoop;

const PATIENCE: Duration = Duration::from_mins(1);

/// `cudasnoop record`, at work.
#[derive(Debug)]
pub struct Recorder {
    child: Child,
    lines: Receiver<String>,
    /// The recording.
    pub file: PathBuf,
}

impl Recorder {
    /// Starts it with these options, writing into `folder`.
    pub fn start<S: AsRef<OsStr>>(folder: &Path, options: impl IntoIterator<Item = S>) -> Self {
        Self::by(cudasnoop(), folder, options)
    }

    /// Starts it by a command of which `record` is the next word.
    pub fn by<S: AsRef<OsStr>>(
        mut command: Command,
        folder: &Path,
        options: impl IntoIterator<Item = S>,
    ) -> Self {
        let file = folder.join("run.arrows");
        let mut child = command
            .env("CUDASNOOP_LOG", "debug")
            .arg("record")
            .arg("-o")
            .arg(&file)
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let stderr = child.stderr.take().expect("piped");
        let (said, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = said.send(line);
            }
        });
        Self { child, lines, file }
    }

    /// Waits until it says something with these words, in whatever order they come.
    pub fn says(&self, words: &[&str]) {
        let mut missing: Vec<&str> = words.to_vec();
        let mut heard = String::new();
        let until = Instant::now() + PATIENCE;
        while !missing.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let line = self
                .lines
                .recv_timeout(left)
                .unwrap_or_else(|_| panic!("it does not say {missing:?}, but\n{heard}"));
            missing.retain(|words| !line.contains(words));
            heard.push_str(&line);
            heard.push('\n');
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().try_into().expect("a pid"));
        kill(pid, signal).expect("sent");
    }

    /// Its open files, by what they lead to.
    pub fn open_files(&self) -> Vec<String> {
        let folder = format!("/proc/{}/fd", self.pid());
        let files = fs::read_dir(folder).expect("its files");
        let target = |entry: fs::DirEntry| fs::read_link(entry.path()).ok();
        files
            .filter_map(|entry| target(entry.expect("an entry")))
            .map(|path| path.to_string_lossy().into_owned())
            .collect()
    }

    /// Interrupts it, and waits until it has ended well.
    pub fn interrupt(self) -> PathBuf {
        self.signal(Signal::SIGINT);
        self.finish()
    }

    /// Waits until it has ended well.
    pub fn finish(mut self) -> PathBuf {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("waited") {
                let said: Vec<String> = self.lines.try_iter().collect();
                assert!(status.success(), "{status}: {}", said.join("\n"));
                return self.file.clone();
            }
            assert!(Instant::now() < until, "the recorder does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Where a test failed.
        let _ = self.child.kill();
    }
}
