//! The protocol: calls with numbers, their answers, and events in between.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// How long an answer may take before the browser counts as hung.
const PATIENCE: Duration = Duration::from_mins(1);

/// As quiet a browser as there is: it asks nobody anything.
const FLAGS: [&str; 16] = [
    "--headless=new",
    // Tests may run as root, whom its sandbox refuses; it sees our pages alone.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-proxy-server",
    "--password-store=basic",
    "--remote-debugging-pipe",
];

#[derive(Debug)]
pub(crate) struct DevTools {
    browser: Child,
    calls: ChildStdin,
    messages: Receiver<Value>,
    events: VecDeque<Value>,
    next: u64,
    /// The profile, and what the browser said.
    folder: TempDir,
}

impl DevTools {
    pub(crate) fn start(program: &Path) -> Self {
        let folder = TempDir::new().expect("a folder for the profile");
        let log = File::create(folder.path().join("log")).expect("a file for what it says");
        // It takes calls from descriptor 3, and answers on 4.
        let mut browser = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >&2"])
            .arg(program)
            .args(FLAGS)
            .arg(format!(
                "--user-data-dir={}",
                folder.path().join("profile").display()
            ))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("a shell");
        let calls = browser.stdin.take().expect("a pipe");
        let answers = browser.stdout.take().expect("a pipe");
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            let mut answers = BufReader::new(answers);
            let mut message = Vec::new();
            while answers
                .read_until(0, &mut message)
                .is_ok_and(|read| read > 0)
            {
                message.pop();
                let parsed = serde_json::from_slice(&message).expect("messages are JSON");
                if sender.send(parsed).is_err() {
                    return;
                }
                message.clear();
            }
        });
        Self {
            browser,
            calls,
            messages,
            events: VecDeque::new(),
            next: 1,
            folder,
        }
    }

    /// Makes a call, of a page where `session` is given, and returns its result.
    pub(crate) fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        parameters: &Value,
    ) -> Value {
        let id = self.next;
        self.next += 1;
        let mut call = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = session {
            call["sessionId"] = session.into();
        }
        let mut message = call.to_string().into_bytes();
        message.push(0);
        if self.calls.write_all(&message).is_err() {
            self.give_up(method);
        }
        loop {
            let message = self.next_message(method);
            if message["id"] == id {
                assert!(
                    message.get("error").is_none(),
                    "{method}: {}",
                    message["error"]
                );
                return message["result"].clone();
            }
            self.events.push_back(message);
        }
    }

    /// Waits for an event of a page.
    pub(crate) fn wait_for(&mut self, session: &str, event: &str) {
        let is_it = |message: &Value| message["method"] == event && message["sessionId"] == session;
        if self.events.iter().any(is_it) {
            return;
        }
        loop {
            let message = self.next_message(event);
            let found = is_it(&message);
            self.events.push_back(message);
            if found {
                return;
            }
        }
    }

    /// The events of a page until now.
    pub(crate) fn events<'a>(&'a self, session: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events
            .iter()
            .filter(move |message| message["sessionId"] == session)
    }

    fn next_message(&self, waited_for: &str) -> Value {
        match self.messages.recv_timeout(PATIENCE) {
            Ok(message) => message,
            Err(_) => self.give_up(waited_for),
        }
    }

    fn give_up(&self, waited_for: &str) -> ! {
        let log = fs::read_to_string(self.folder.path().join("log"));
        panic!(
            "no answer from Chromium to {waited_for}; it said: {}",
            log.unwrap_or_default()
        )
    }
}

impl Drop for DevTools {
    fn drop(&mut self) {
        // It is ours: its pipe ends here, and so does it.
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}
