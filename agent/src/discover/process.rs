//! A process, as `/proc` tells of it.
//!
//! Own readers of a few files, because the text is the process's own: names that are not
//! UTF-8, or hold blanks and brackets, must not hide a process.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

use trace::fact;

use super::{
    container::Container,
    elf::Elf,
    file::{FileIdentity, TargetFile},
    library::Library,
};

/// Longest command line that is kept, bytes.
const COMMAND_LIMIT: usize = 4096;
/// Most of an environment that is looked at, bytes.
const ENVIRONMENT_LIMIT: usize = 256 * 1024;
/// More than the kernel writes into `stat`, `status` or `comm`. `children` has no bound:
/// see [`Process::children`].
const FILE_LIMIT: usize = 64 * 1024;

/// Why something about a process is not known.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It is gone, or was never there.
    #[error("there is no process {pid} in this pid namespace (or /proc hides it: hidepid)")]
    NoSuchProcess {
        /// The process.
        pid: u32,
    },
    /// All its threads have ended.
    #[error("process {pid} has ended and waits for its parent to collect it")]
    Ended {
        /// The process.
        pid: u32,
    },
    /// The number is that of a thread.
    #[error("{tid} is a thread of process {pid}: name the process")]
    Thread {
        /// The thread.
        tid: u32,
        /// Its process.
        pid: u32,
    },
    /// The kernel does not let us look.
    #[error(
        "cannot read /proc/{pid}/{file}: permission denied; grant CAP_SYS_PTRACE, or run as the \
         user of the process"
    )]
    Denied {
        /// The process, or its thread that stands for it.
        pid: u32,
        /// The file under `/proc/PID`.
        file: &'static str,
    },
    /// Another failure.
    #[error("cannot read /proc/{pid}/{file}: {source}")]
    Unreadable {
        /// The process, or its thread that stands for it.
        pid: u32,
        /// The file under `/proc/PID`.
        file: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The text is not as the kernel writes it, or larger than we keep.
    #[error("cannot use /proc/{pid}/{file}: {detail}")]
    Malformed {
        /// The process, or its thread that stands for it.
        pid: u32,
        /// The file under `/proc/PID`.
        file: &'static str,
        /// What is wrong.
        detail: &'static str,
    },
}

/// Process ids of all processes in this pid namespace, in no order.
pub fn pids() -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        pids.extend(number(entry?.file_name().as_bytes()));
    }
    Ok(pids)
}

/// A process that was alive when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pid: u32,
    task: u32,
}

/// Which program a process runs, as a value to compare: it changes when the process id
/// is reused, and with `exec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    start_time: u64,
    layout: [u64; 10],
}

impl Process {
    /// The process `pid` of this pid namespace.
    pub fn open(pid: u32) -> Result<Self, ProcessError> {
        let status = Status::read(pid)?;
        if status.tgid != pid {
            return Err(ProcessError::Thread {
                tid: pid,
                pid: status.tgid,
            });
        }
        if status.is_alive() {
            return Ok(Self { pid, task: pid });
        }
        // The leader thread has ended. What the process maps is only told by a thread that
        // lives: /proc answers for every thread id as it does for a process.
        let alive = |task: &u32| Status::read(*task).is_ok_and(|status| status.is_alive());
        let task = tasks(pid)?
            .into_iter()
            .find(alive)
            .ok_or(ProcessError::Ended { pid })?;
        Ok(Self { pid, task })
    }

    /// Whether the process has ended, or is just about to: while it does, it has given its memory back,
    /// and so maps nothing, and is still shown as running.
    pub fn has_ended(pid: u32) -> bool {
        let is_leaving = |process: &Self| {
            let executable = process.executable();
            matches!(executable, Err(ProcessError::NoSuchProcess { .. }))
        };
        Self::open(pid).as_ref().map_or(true, is_leaving)
    }

    /// Its id in this pid namespace.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the leader thread has ended while others live. Links that are scoped to the
    /// process do not fire then.
    pub const fn leader_exited(&self) -> bool {
        self.pid != self.task
    }

    /// A file that tells of the process, through a thread of it that lives.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.task))
    }

    /// The error for a failed access to [`Process::path`].
    pub(super) fn error(&self, file: &'static str, source: io::Error) -> ProcessError {
        classify(self.task, file, source)
    }

    /// Which program it runs.
    pub fn program(&self) -> Result<Program, ProcessError> {
        let Stat { start_time, layout } = Stat::read(self.task)?;
        Ok(Program { start_time, layout })
    }

    /// Who it is, for the recording. Text that is not UTF-8 is shown with replacement
    /// characters.
    pub fn facts(&self, from_start: bool) -> Result<fact::Process, ProcessError> {
        let status = Status::read(self.pid)?;
        let stat = Stat::read(self.pid)?;
        let exe = self.executable()?;
        let cgroups = self.cgroups().unwrap_or_default();
        let container = Container::of_cgroups(cgroups.iter().map(String::as_str));
        let (container, pod_uid) = container.map_or((None, None), |container| {
            (Some(container.id), container.pod_uid)
        });
        let arguments = read(self.task, "cmdline", COMMAND_LIMIT)?;
        let mut title = text(
            arguments
                .split(|byte| *byte == 0)
                .next()
                .unwrap_or_default(),
        );
        if title.is_empty() {
            title = text(&read(self.task, "comm", FILE_LIMIT)?);
        }
        Ok(fact::Process {
            pid: self.pid,
            namespace_pid: status.namespace_pid,
            start_time: stat.start_time,
            parent: status.parent,
            exe: exe.to_string_lossy().into_owned(),
            title,
            command: command(&arguments),
            from_start,
            visible_devices: self.environment_value(b"CUDA_VISIBLE_DEVICES"),
            container,
            pod_uid,
            entry_only: None,
        })
    }

    /// Its title and arguments, in one line; empty where they may not be read.
    pub fn command(&self) -> String {
        read(self.task, "cmdline", COMMAND_LIMIT)
            .map(|arguments| command(&arguments))
            .unwrap_or_default()
    }

    /// A variable of the environment that it was started with; `None` where it is not set, or
    /// may not be read.
    fn environment_value(&self, name: &[u8]) -> Option<String> {
        let environment = read(self.task, "environ", ENVIRONMENT_LIMIT).ok()?;
        environment.split(|byte| *byte == 0).find_map(|variable| {
            let value = variable.strip_prefix(name)?.strip_prefix(b"=")?;
            Some(text(value))
        })
    }

    /// The file that it runs, as it sees the path; not for kernel threads.
    pub fn executable(&self) -> Result<PathBuf, ProcessError> {
        fs::read_link(self.path("exe")).map_err(|error| self.error("exe", error))
    }

    /// Which file it runs, whatever is at its path.
    pub fn executable_identity(&self) -> Result<FileIdentity, ProcessError> {
        TargetFile::open(&self.path("exe"))
            .map(|file| file.identity())
            .map_err(|error| self.error("exe", error))
    }

    /// Whether a seccomp filter is on it; `None` where that is not known.
    pub fn is_filtered(&self) -> Option<bool> {
        has_filter(&read(self.task, "status", FILE_LIMIT).ok()?)
    }

    /// Whether it is a Go program that has CUDA's functions in its own file, and not in a library
    /// that it calls: such functions may run on stacks that Go moves.
    pub fn is_go_with_cuda(&self) -> bool {
        TargetFile::open(&self.path("exe")).is_ok_and(|file| {
            let found = Elf::open(&file)
                .and_then(|elf| Ok(elf.has_section(".go.buildinfo")? && Library::is_cuda(&elf)?));
            found.unwrap_or(false)
        })
    }

    /// The paths of its cgroups, one for each hierarchy (/proc/PID/cgroup).
    pub fn cgroups(&self) -> Result<Vec<String>, ProcessError> {
        let lines = read(self.task, "cgroup", FILE_LIMIT)?;
        // HIERARCHY:CONTROLLERS:PATH
        let path = |line: &[u8]| Some(text(line.splitn(3, |byte| *byte == b':').nth(2)?));
        Ok(lines
            .split(|byte| *byte == b'\n')
            .filter_map(path)
            .collect())
    }

    /// Its children, those of all its threads.
    pub fn children(&self) -> Result<Vec<u32>, ProcessError> {
        let mut children = Vec::new();
        for task in tasks(self.pid)? {
            let path = format!("/proc/{}/task/{task}/children", self.pid);
            match fs::read(path) {
                Ok(list) => children.extend(list.split(u8::is_ascii_whitespace).filter_map(number)),
                // The thread has ended: its children went to another thread.
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(self.error("task/TID/children", error)),
            }
        }
        Ok(children)
    }
}

/// Whether system calls are filtered; `None` where `status`, a `/proc/PID/status`, does not
/// tell (a kernel without seccomp).
fn has_filter(status: &[u8]) -> Option<bool> {
    const FILTER: &[u8] = b"2";
    let mode = status
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(b"Seccomp:"))?
        .trim_ascii();
    (!mode.is_empty()).then_some(mode == FILTER)
}

/// Thread ids of process `pid`.
fn tasks(pid: u32) -> Result<Vec<u32>, ProcessError> {
    let failed = |error| classify(pid, "task", error);
    let mut tasks = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task")).map_err(failed)? {
        tasks.extend(number(entry.map_err(failed)?.file_name().as_bytes()));
    }
    Ok(tasks)
}

/// The fields of `/proc/PID/status` that we use.
struct Status {
    state: u8,
    tgid: u32,
    parent: u32,
    namespace_pid: u32,
}

impl Status {
    fn read(pid: u32) -> Result<Self, ProcessError> {
        Self::parse(&read(pid, "status", FILE_LIMIT)?).ok_or(ProcessError::Malformed {
            pid,
            file: "status",
            detail: "a field is missing or no number",
        })
    }

    /// The kernel escapes line ends in the `Name` line, so that no process can fake a field.
    fn parse(status: &[u8]) -> Option<Self> {
        let field = |name: &str| {
            let line = status
                .split(|byte| *byte == b'\n')
                .find_map(|line| line.strip_prefix(name.as_bytes()))?;
            Some(line.trim_ascii())
        };
        let pid = number(field("Pid:")?)?;
        // The ids in all nested namespaces, the innermost last.
        let innermost = field("NSpid:").and_then(|ids| ids.rsplit(u8::is_ascii_whitespace).next());
        Some(Self {
            state: *field("State:")?.first()?,
            tgid: number(field("Tgid:")?)?,
            parent: number(field("PPid:")?)?,
            namespace_pid: innermost.and_then(number).unwrap_or(pid),
        })
    }

    const fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// The fields of `/proc/PID/stat` that we use.
struct Stat {
    start_time: u64,
    /// Where code, data, stack, arguments and environment begin and end. Not known (0 or 1)
    /// without the right to trace the process.
    layout: [u64; 10],
}

impl Stat {
    fn read(pid: u32) -> Result<Self, ProcessError> {
        Self::parse(&read(pid, "stat", FILE_LIMIT)?).ok_or(ProcessError::Malformed {
            pid,
            file: "stat",
            detail: "a field is missing or no number",
        })
    }

    /// Fields are counted from the last closing bracket, for the name before it may hold
    /// blanks and brackets. Numbers as in proc(5), where the state is field 3.
    fn parse(stat: &[u8]) -> Option<Self> {
        const LAYOUT: [usize; 10] = [26, 27, 28, 45, 46, 47, 48, 49, 50, 51];
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let fields: Vec<_> = stat
            .get(end + 2..)?
            .split(u8::is_ascii_whitespace)
            .collect();
        let field = |index: usize| {
            std::str::from_utf8(fields.get(index - 3)?)
                .ok()?
                .parse()
                .ok()
        };
        let mut layout = [0; 10];
        for (value, index) in layout.iter_mut().zip(LAYOUT) {
            *value = field(index)?;
        }
        Some(Self {
            start_time: field(22)?,
            layout,
        })
    }
}

/// The beginning of `/proc/PID/FILE`, at most `limit` bytes.
fn read(pid: u32, file: &'static str, limit: usize) -> Result<Vec<u8>, ProcessError> {
    let mut content = Vec::new();
    File::open(format!("/proc/{pid}/{file}"))
        .and_then(|opened| opened.take(limit as u64).read_to_end(&mut content))
        .map_err(|error| classify(pid, file, error))?;
    Ok(content)
}

fn classify(pid: u32, file: &'static str, source: io::Error) -> ProcessError {
    if is_gone(&source) {
        ProcessError::NoSuchProcess { pid }
    } else if source.kind() == io::ErrorKind::PermissionDenied {
        ProcessError::Denied { pid, file }
    } else {
        ProcessError::Unreadable { pid, file, source }
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn text(bytes: &[u8]) -> String {
    OsStr::from_bytes(bytes.trim_ascii_end())
        .to_string_lossy()
        .into_owned()
}

/// Arguments in one line, parted by blanks.
fn command(arguments: &[u8]) -> String {
    let end = arguments
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    let line: Vec<u8> = arguments[..end]
        .iter()
        .map(|byte| if *byte == 0 { b' ' } else { *byte })
        .collect();
    text(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let stat = b"7 (a) b) R 9 9 (x) S 1 7 7 0 -1 4194304 101 0 0 0 0 0 0 0 20 0 1 0 152173 \
            3133440 380 18446744073709551615 26 27 28 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 45 46 47 \
            48 49 50 51 0";
        let stat = Stat::parse(stat).expect("parses");
        assert_eq!(stat.start_time, 152_173);
        assert_eq!(stat.layout, [26, 27, 28, 45, 46, 47, 48, 49, 50, 51]);
    }

    #[test]
    fn who_has_ended_is_told_from_who_lives() {
        assert!(!Process::has_ended(std::process::id()));
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("starts");
        assert!(!Process::has_ended(child.id()));
        child.kill().expect("killed");
        let waits = std::time::Instant::now();
        // Nobody has collected it: it stays a zombie.
        while !Process::has_ended(child.id()) {
            assert!(waits.elapsed().as_secs() < 10, "it has ended");
        }
        child.wait().expect("collected");
        assert!(Process::has_ended(child.id()));
    }

    #[test]
    fn damaged_text_is_refused_not_guessed() {
        for stat in [
            &b""[..],
            b"7",
            b"7 (a)",
            b"7 (a) R 1 2",
            b")",
            b"7 (a) R x x x x x",
        ] {
            assert!(Stat::parse(stat).is_none(), "{stat:?}");
        }
        for status in [
            &b""[..],
            b"State:",
            b"Pid:\t1\nState:\tR\nTgid:\tone\nPPid:\t0\n",
        ] {
            assert!(Status::parse(status).is_none(), "{status:?}");
        }
    }

    #[test]
    fn the_innermost_namespace_gives_the_process_its_own_id() {
        let status = b"Name:\tx Pid: 5\nState:\tZ (zombie)\nTgid:\t70\nPid:\t70\nPPid:\t3\n\
            NSpid:\t70\t12\t1\n";
        let status = Status::parse(status).expect("parses");
        assert_eq!(
            (status.tgid, status.parent, status.namespace_pid),
            (70, 3, 1)
        );
        assert!(!status.is_alive());
    }

    #[test]
    fn filters_are_read_from_status() {
        let status = |lines: &str| has_filter(format!("Name:\tx\n{lines}").as_bytes());
        assert_eq!(status("Seccomp:\t2\nSeccomp_filters:\t1\n"), Some(true));
        assert_eq!(status("Seccomp:\t0\nSeccomp_filters:\t0\n"), Some(false));
        assert_eq!(status("Seccomp:\t1\n"), Some(false));
        // The kernel escapes line ends in names.
        assert_eq!(has_filter(b"Name:\tx\\nSeccomp:\t2\nState:\tR\n"), None);
        for odd in [
            "Seccomp:",
            "Seccomp:\n",
            "Seccomp_filters:\t2\n",
            "Seccomp",
            "",
        ] {
            assert_eq!(status(odd), None, "{odd:?}");
        }
        assert_eq!(has_filter(b"\xff\xfe\n\nSeccomp:\t2"), Some(true));
    }

    #[test]
    fn our_own_facts_are_right() {
        let own = Process::open(std::process::id()).expect("we live");
        let facts = own.facts(true).expect("readable");
        assert_eq!(facts.pid, std::process::id());
        assert_eq!(facts.parent, std::os::unix::process::parent_id());
        assert_eq!(
            PathBuf::from(&facts.exe),
            std::env::current_exe().expect("known")
        );
        let arguments: Vec<String> = std::env::args().collect();
        assert_eq!(facts.title, arguments[0]);
        assert_eq!(facts.command, arguments.join(" "));
        assert!(facts.start_time > 0 && facts.from_start);
        assert!(!own.leader_exited());
        assert!(pids().expect("/proc").contains(&own.pid()));
    }

    #[test]
    fn a_process_that_is_not_there_is_said_to_be_not_there() {
        // Above the largest pid_max.
        let error = Process::open(4_194_305).expect_err("impossible pid");
        assert!(
            matches!(error, ProcessError::NoSuchProcess { pid: 4_194_305 }),
            "{error}"
        );
    }
}
