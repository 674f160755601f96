//! Waiting for the end; and the command that we start.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, IsTerminal as _, Read as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::PermissionsExt as _,
        process::{CommandExt as _, ExitStatusExt as _},
    },
    path::{Path, PathBuf},
    process::{self, Child, ExitStatus, Stdio},
    sync::mpsc::{Sender, channel},
    thread,
};

use aya::maps::{Array, MapData, MapError};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use thiserror::Error;
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
    sync::oneshot,
    time,
};

use super::{Observer, Options, SessionError, Target, Vitals, control::Control, stop::Stop};

/// Why the command did not run.
#[derive(Debug, Error)]
pub enum CommandError {
    /// There is no such program.
    #[error("starting {}: not found in PATH", name.to_string_lossy())]
    NotFound {
        /// As it was given.
        name: OsString,
    },
    /// It could not be started.
    #[error("starting {}: {source}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It could not be waited for.
    #[error("waiting for the command: {0}")]
    Wait(#[source] io::Error),
}

/// Starts what there is to start, and waits for whatever ends the session. The command's exit
/// code, if there is one.
pub(super) fn wait(
    options: &Options,
    control: &Sender<Control>,
    armed: &mut Array<MapData, u32>,
    stop: &Stop,
    vitals: impl Fn() -> Result<Vitals, MapError>,
    observer: Option<Observer<'_>>,
) -> Result<Option<i32>, SessionError> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(SessionError::Start)?;
    runtime.block_on(async {
        // Before the command starts, so that no signal can end us without ending it well.
        let mut interrupt = signal(SignalKind::interrupt()).map_err(SessionError::Start)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(SessionError::Start)?;
        let mut switch = signal(SignalKind::user_defined1()).map_err(SessionError::Start)?;
        let mut command = match &options.target {
            Target::Pids(pids) => {
                add(pids, control)?;
                None
            }
            Target::Matching(_) => {
                choose(control)?;
                None
            }
            Target::Command(words) => {
                let output = options.command_output.as_deref();
                Some(Running::start(words, output, control, armed)?)
            }
        };
        if options.switch.is_off() {
            let _ = control.send(Control::Switch { off: true });
        }
        let duration = async {
            match options.duration {
                Some(duration) => time::sleep(duration).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(duration);
        let mut observer = observer;
        let mut interval = observer.as_ref().map(|(period, _)| time::interval(*period));
        if let Some(interval) = &mut interval {
            // The first tick comes at once.
            interval.tick().await;
        }
        let mut ending = false;
        loop {
            tokio::select! {
                () = tick(interval.as_mut()) => {
                    if let Some((_, look)) = &mut observer {
                        look(&vitals()?);
                    }
                    continue;
                }
                status = exited(command.as_mut()) => {
                    return Ok(Some(exit_code(status.map_err(CommandError::Wait)?)));
                }
                () = stop.requested() => return Ok(None),
                () = &mut duration, if !ending => {}
                _ = interrupt.recv() => {
                    // From a terminal, the command has got it too.
                    if let Some(command) = &command && !io::stdin().is_terminal() {
                        command.signal(Signal::SIGINT);
                    }
                    if command.is_some() && !ending {
                        ending = true;
                        continue;
                    }
                }
                _ = terminate.recv() => {}
                () = stop.asked() => {}
                _ = switch.recv() => {
                    options.switch.toggle();
                    continue;
                }
                () = options.switch.told() => {
                    let _ = control.send(Control::Switch { off: options.switch.is_off() });
                    continue;
                }
            }
            match &command {
                // Trace it to its end, which a second request does not wait for.
                Some(command) if !ending => {
                    command.signal(Signal::SIGTERM);
                    ending = true;
                }
                Some(_) | None => return Ok(None),
            }
        }
    })
}

async fn tick(interval: Option<&mut time::Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}

async fn exited(command: Option<&mut Running>) -> io::Result<ExitStatus> {
    match command {
        Some(command) => match (&mut command.status).await {
            Ok(status) => status,
            Err(_) => Err(io::Error::other("the thread that waits for it ended")),
        },
        None => std::future::pending().await,
    }
}

/// Traces running processes.
fn add(pids: &[u32], control: &Sender<Control>) -> Result<(), SessionError> {
    for pid in pids {
        let (reply, answer) = channel();
        let _ = control.send(Control::Add { pid: *pid, reply });
        let has_cuda = answer
            .recv()
            .map_err(|_| SessionError::Panicked("control"))??;
        if has_cuda {
            tracing::info!("process {pid} is traced");
        } else {
            tracing::warn!(
                "process {pid} has no CUDA library loaded (libcudart or libcuda); waiting for one"
            );
        }
    }
    Ok(())
}

/// Traces those running processes that are chosen.
fn choose(control: &Sender<Control>) -> Result<(), SessionError> {
    let (reply, answer) = channel();
    let _ = control.send(Control::Choose { reply });
    answer.recv().map_err(|_| SessionError::Panicked("control"))
}

/// A command that runs.
#[derive(Debug)]
struct Running {
    pid: i32,
    status: oneshot::Receiver<io::Result<ExitStatus>>,
}

impl Running {
    fn start(
        words: &[OsString],
        output: Option<&File>,
        control: &Sender<Control>,
        armed: &mut Array<MapData, u32>,
    ) -> Result<Self, SessionError> {
        let name = words.first().map_or(OsStr::new(""), OsString::as_os_str);
        let path = find(name).ok_or_else(|| CommandError::NotFound {
            name: name.to_owned(),
        })?;
        let (reply, ready) = channel();
        let executable = interpreter(&path, 4);
        let _ = control.send(Control::Prepare { executable, reply });
        ready
            .recv()
            .map_err(|_| SessionError::Panicked("control"))?;
        // The kernel takes the next child of ours into the set of traced processes, before it
        // runs its first instruction.
        armed.set(0, &1, 0)?;
        let mut command = process::Command::new(&path);
        command.arg0(name).args(&words[1..]);
        if let Some(file) = output {
            let to_file = || file.try_clone().map(Stdio::from);
            let start = |source| CommandError::Start {
                path: path.clone(),
                source,
            };
            command
                .stdin(Stdio::null())
                .stdout(to_file().map_err(start)?)
                .stderr(to_file().map_err(start)?);
        }
        // SAFETY: prctl is async-signal-safe and touches no memory of ours. This thread lives
        // as long as the session, which the parent-death signal depends on.
        unsafe {
            command.pre_exec(|| {
                // Should we die while it is held, it must go on.
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGCONT) == -1 {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command
            .spawn()
            .map_err(|source| CommandError::Start { path, source })?;
        let pid = child.id();
        let (done, status) = oneshot::channel();
        thread::Builder::new()
            .name("command".to_owned())
            .spawn(move || {
                let mut child: Child = child;
                let _ = done.send(child.wait());
            })
            .map_err(SessionError::Start)?;
        Ok(Self {
            pid: i32::try_from(pid).unwrap_or(i32::MAX),
            status,
        })
    }

    fn signal(&self, signal: Signal) {
        if let Err(error) = kill(Pid::from_raw(self.pid), signal) {
            tracing::warn!("sending {signal} to the command: {error}");
        }
    }
}

/// 128 + signal where one ended it, as shells have it.
fn exit_code(status: ExitStatus) -> i32 {
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1)
}

/// The program that a name means: itself where it has a slash, else the first in PATH.
fn find(name: &OsStr) -> Option<PathBuf> {
    if name.is_empty() {
        return None;
    }
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let is_program = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let directories = env::var_os("PATH")?;
    env::split_paths(&directories)
        .map(|directory| directory.join(name))
        .find(is_program)
}

/// The executable that the kernel will run for a script: what its first line names.
fn interpreter(path: &Path, depth: u32) -> PathBuf {
    let mut line = [0; 256];
    let length = File::open(path)
        .and_then(|mut file| file.read(&mut line))
        .unwrap_or(0);
    let named = line[..length].strip_prefix(b"#!").and_then(|rest| {
        let line = rest.split(|byte| *byte == b'\n').next()?;
        let name = line
            .split(u8::is_ascii_whitespace)
            .find(|word| !word.is_empty())?;
        Some(PathBuf::from(OsStr::from_bytes(name)))
    });
    match named {
        Some(named) if depth > 0 => interpreter(&named, depth - 1),
        Some(_) | None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _};

    use super::*;

    #[test]
    fn scripts_name_their_interpreter() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("script");
        fs::write(&script, "#! /bin/sh -e\necho\n").expect("written");
        assert_eq!(interpreter(&script, 4), Path::new("/bin/sh"));
        let around = folder.path().join("around");
        let mut file = File::create(&around).expect("created");
        writeln!(file, "#!{}", script.display()).expect("written");
        assert_eq!(interpreter(&around, 4), Path::new("/bin/sh"));
        assert_eq!(interpreter(&around, 0), around);
    }

    #[test]
    fn signals_become_exit_codes() {
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
    }

    #[test]
    fn programs_are_found_in_path() {
        assert!(find(OsStr::new("sh")).is_some_and(|path| path.is_absolute()));
        assert_eq!(find(OsStr::new("./here")), Some(PathBuf::from("./here")));
        assert_eq!(find(OsStr::new("no-such-program-anywhere")), None);
    }
}
