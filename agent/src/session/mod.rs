//! One run of the tracer: from the target to the last row.
//!
//! Four threads. This one waits, and starts the command. `control` attaches probes. `drain`
//! empties the ring buffer into the sink. `names` finds out what addresses mean.

mod account;
mod arrays;
mod captures;
mod clock;
mod command;
mod control;
mod devices;
mod drain;
mod enrich;
mod names;
mod stop;

use std::{
    ffi::OsString,
    io,
    sync::{Arc, mpsc::channel},
    thread,
    time::Duration,
};

use agent_common::Family;
use thiserror::Error;
use trace::{Fact, fact};

pub use account::{InFlight, Totals};
pub use command::CommandError;
pub use control::AttachFailure;
pub use stop::Stop;

use crate::{
    kernel::{AttachMode, Features, privileges},
    programs::{LoadError, Options as ProgramOptions, Programs},
    sink::{Sink, SinkError, Summary},
};
pub(crate) use clock::monotonic;
use control::Control;
pub(crate) use drain::clock_event;
use drain::{Drain, Inbox};
use enrich::Enricher;
pub(crate) use enrich::fact_event;
use names::Names;

/// What is traced.
#[derive(Clone, Debug)]
pub enum Target {
    /// A command that we start, and all that it starts.
    Command(Vec<OsString>),
    /// Processes that run already, and their children.
    Pids(Vec<u32>),
}

/// How a session is to go.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
#[derive(Clone, Debug)]
pub struct Options {
    /// What is traced.
    pub target: Target,
    /// The families that are traced.
    pub families: Vec<Family>,
    /// How probes are attached; `None` for the best that the kernel can do.
    pub attach: Option<AttachMode>,
    /// Bytes of the ring buffer: a power of two, at least a page.
    pub ring_bytes: u32,
    /// Threads that may be inside traced processes at once.
    pub threads: u32,
    /// Count only; the sink gets no calls.
    pub count_only: bool,
    /// Probe launches at return, too.
    pub launch_returns: bool,
    /// Kernel names are wanted in the line of the call itself.
    pub names_at_once: bool,
    /// End after this long.
    pub duration: Option<Duration>,
    /// Ends the session from another thread.
    pub stop: Arc<Stop>,
    /// Pass on the eBPF programs' debug lines.
    pub ebpf_log: bool,
}

/// Why a session failed.
#[derive(Debug, Error)]
pub enum SessionError {
    /// Capabilities are missing.
    #[error(
        "tracing needs {}, which this process does not have\nhint: run as root, or grant them; \
         in Kubernetes: securityContext.capabilities.add: [{}]",
        missing.join(", "),
        missing.iter().map(|name| name.trim_start_matches("CAP_")).collect::<Vec<_>>().join(", ")
    )]
    Privileges {
        /// The capabilities.
        missing: Vec<&'static str>,
    },
    /// The kernel cannot do what was asked.
    #[error(
        "this kernel ({release}) cannot attach in {mode} mode\nhint: multi links need Linux 6.6, \
         scoped ones 6.10; leave --attach out to take what the kernel can do"
    )]
    Unsupported {
        /// The mode that was asked for.
        mode: AttachMode,
        /// Kernel release.
        release: String,
    },
    /// The kernel is below the floor.
    #[error(
        "this kernel ({release}) is too old\nhint: cudasnoop needs Linux 5.15 (attach cookies \
         and the ring buffer); 6.6 and later need fewer privileges"
    )]
    KernelTooOld {
        /// Kernel release.
        release: String,
    },
    /// The programs could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A target could not be traced.
    #[error(transparent)]
    Attach(#[from] AttachFailure),
    /// The command could not be started.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// Events could not be passed on.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// A map could not be read.
    #[error("reading what the kernel counted: {0}")]
    Counters(#[from] aya::maps::MapError),
    /// A thread, or the runtime for signals, could not be started.
    #[error("starting the session: {0}")]
    Start(#[source] io::Error),
    /// A thread died.
    #[error("the {0} thread of the session panicked: this is a bug, please report it")]
    Panicked(&'static str),
}

/// How a session went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The command's exit code (128 + signal where one killed it).
    pub exit_code: Option<i32>,
    /// What the kernel counted for each function that was called.
    pub totals: Vec<Totals>,
    /// Calls that had not returned.
    pub in_flight: Vec<InFlight>,
    /// What the sink did.
    pub summary: Summary,
    /// Library files that were traced.
    pub libraries: usize,
}

/// What the kernel's side says of itself.
#[derive(Clone, Debug, Default)]
pub struct Vitals {
    /// What was counted for each function that was called.
    pub totals: Vec<Totals>,
    /// How full the ring buffer is, from 0 to 1.
    pub ring_fill: f64,
    /// Forks, execs and exits that found the ring buffer full.
    pub unseen_tasks: u64,
    /// Hits that the kernel did not run a program for.
    pub recursion_misses: u64,
}

/// Looks at the vitals from time to time.
pub type Observer<'a> = (Duration, &'a mut dyn FnMut(&Vitals));

/// Runs a session to its end.
pub fn run(
    options: &Options,
    make_sink: impl FnOnce(fact::Clock) -> Result<Box<dyn Sink>, SinkError>,
    observer: Option<Observer<'_>>,
) -> Result<Outcome, SessionError> {
    let features = Features::detect();
    let mode = attach_mode(options, features)?;
    let is_command = matches!(options.target, Target::Command(_));
    let sink = make_sink(clock::anchor())?;
    let mut programs = Programs::load(&ProgramOptions {
        mode,
        features,
        ring_bytes: options.ring_bytes,
        threads: options.threads,
        count_only: options.count_only,
        hold: is_command,
    })?;
    if options.ebpf_log {
        crate::ebpf_log::start(programs.ebpf());
    }
    let (ring, ring_fill) = programs.take_ring()?;
    let mut armed = programs.take_armed()?;
    let state = programs.take_state(ring_fill)?;
    let stop = Arc::clone(&options.stop);
    let (control_tx, control_rx) = channel();
    let (inbox_tx, inbox_rx) = channel();
    let names = if options.names_at_once {
        Names::now()
    } else {
        Names::later().map_err(SessionError::Start)?
    };
    let drain = Drain {
        ring,
        inbox: inbox_rx,
        control: control_tx.clone(),
        enricher: Enricher::new(names),
        sink,
        stop: Arc::clone(&stop),
    };
    let drain = thread::Builder::new()
        .name("drain".to_owned())
        .spawn(move || drain.run())
        .map_err(SessionError::Start)?;
    let _ = inbox_tx.send(Inbox::Fact(settings(options, mode)));
    let _ = inbox_tx.send(Inbox::Fact(clock_event()));
    let controller =
        control::Controller::new(programs, mode, options, inbox_tx.clone(), Arc::clone(&stop))?;
    let controller = thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || controller.run(&control_rx))
        .map_err(SessionError::Start)?;

    let waited = command::wait(
        options,
        &control_tx,
        &mut armed,
        &stop,
        || account::vitals(&state),
        observer,
    );

    // Whatever happened: probes off, ring emptied, files whole.
    let _ = control_tx.send(Control::Detach);
    let libraries = controller
        .join()
        .map_err(|_| SessionError::Panicked("control"))?;
    let totals = account::totals(&state)?;
    account::warn_of_unseen_tasks(&state)?;
    let (rows, in_flight) = account::rows(&state, &totals, state.recursion_misses());
    let _ = inbox_tx.send(Inbox::Finish(rows));
    let summary = drain.join().map_err(|_| SessionError::Panicked("drain"))?;
    let exit_code = waited?;
    Ok(Outcome {
        exit_code,
        totals,
        in_flight,
        summary: summary?,
        libraries: libraries.attached,
    })
}

/// The mode to attach in, if it and tracing at all are possible.
fn attach_mode(options: &Options, features: Features) -> Result<AttachMode, SessionError> {
    let is_command = matches!(options.target, Target::Command(_));
    let orphaned = match &options.target {
        Target::Command(_) => false,
        Target::Pids(pids) => pids.iter().any(|pid| control::leader_has_exited(*pid)),
    };
    let best = features.attach_mode(is_command || orphaned);
    // What the kernel can do is not known then; most can do this.
    let best = if privileges::may_ask() {
        best
    } else {
        AttachMode::Scoped
    };
    let mode = options.attach.unwrap_or(best);
    let missing = privileges::missing(mode);
    if !missing.is_empty() {
        return Err(SessionError::Privileges { missing });
    }
    let release = kernel_release();
    let supported = match mode {
        AttachMode::Scoped => features.process_filter,
        AttachMode::Shared => features.multi_links,
        AttachMode::Single => true,
    };
    if !supported {
        return Err(SessionError::Unsupported { mode, release });
    }
    if kernel_version(&release).is_some_and(|version| version < (5, 15)) {
        return Err(SessionError::KernelTooOld { release });
    }
    if mode == AttachMode::Single && options.attach.is_none() {
        tracing::warn!(
            "this kernel ({release}) has no multi links: each probe is attached by itself, and \
             detaching takes about 0.1 s a probe"
        );
    }
    Ok(mode)
}

fn kernel_release() -> String {
    nix::sys::utsname::uname()
        .map(|name| name.release().to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn settings(options: &Options, mode: AttachMode) -> trace::Event {
    let host = nix::sys::utsname::uname()
        .map(|name| name.nodename().to_string_lossy().into_owned())
        .unwrap_or_default();
    let command = match &options.target {
        Target::Command(words) => Some(
            words
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
        ),
        Target::Pids(_) => None,
    };
    let fact = Fact::Settings(fact::Settings {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: kernel_release(),
        host,
        attach: mode.name().to_owned(),
        events: options
            .families
            .iter()
            .map(|family| family.name().to_owned())
            .collect(),
        ring_bytes: options.ring_bytes.into(),
        launch_returns: options.launch_returns,
        command,
    });
    fact_event(0, 0, monotonic(), &fact)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_versions() {
        assert_eq!(kernel_version("6.18.44-generic"), Some((6, 18)));
        assert_eq!(kernel_version("5.15"), Some((5, 15)));
        assert_eq!(kernel_version("odd"), None);
    }
}
