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
mod handles;
mod lost_unloadings;
mod names;
mod probe_status;
mod probe_switch;
mod stop;
mod unsettled;

use std::{
    env,
    ffi::OsString,
    fs::File,
    io,
    sync::{Arc, mpsc::channel},
    time::Duration,
};

use agent_common::Family;
use thiserror::Error;
use trace::{Fact, fact};

pub use account::{InFlight, Totals};
pub use command::CommandError;
pub use control::AttachFailure;
pub use probe_status::ProbeStatus;
pub use probe_switch::ProbeSwitch;
pub use stop::Stop;

use crate::{
    attach::{EntryOnly, Sites},
    budget::{self, Prices, Share},
    discover::Selection,
    doctor::{Locked, Locks},
    kernel::{AttachMode, Features, Release, open_files},
    priority::{self, Turn},
    programs::{LoadError, Options as ProgramOptions, Programs},
    sink::{Sink, SinkError, Sources, Summary},
};
pub(crate) use clock::monotonic;
use control::{Budget, Control};
pub(crate) use drain::clock_event;
use drain::{Drain, Inbox};
use enrich::Enricher;
pub(crate) use enrich::fact_event;
use handles::Lookout;
use lost_unloadings::LostUnloadings;
use names::Names;

/// How long the drain waits for a name that is read in a process. (Of 4,000 in an idle process, the median
/// took 8 µs, the 99th percentile 64: 2 processors, Linux 6.18.)
const PATIENCE: Duration = Duration::from_millis(1);
/// The same where the name is wanted in the line of the call itself.
const PATIENCE_AT_ONCE: Duration = Duration::from_millis(50);

/// What is traced.
#[derive(Clone, Debug)]
pub enum Target {
    /// A command that we start, and all that it starts.
    Command(Vec<OsString>),
    /// Processes that run already, and their children.
    Pids(Vec<u32>),
    /// Those that fit, now and later, and their children.
    Matching(Selection),
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
    /// Which processes are probed at entries alone.
    pub entry_only: EntryOnly,
    /// Processes that have not called `cuInit` for so long may lose their probes until they do.
    pub idle_after: Duration,
    /// Kernel names are wanted in the line of the call itself.
    pub names_at_once: bool,
    /// End after this long.
    pub duration: Option<Duration>,
    /// Ends the session from another thread.
    pub stop: Arc<Stop>,
    /// Takes all probes off, and puts them back.
    pub switch: Arc<ProbeSwitch>,
    /// Which probes are on.
    pub status: Arc<ProbeStatus>,
    /// What probes may cost; `None`: whatever they do.
    pub max_overhead: Option<Share>,
    /// Pass on the eBPF programs' debug lines.
    pub ebpf_log: bool,
    /// Where the command's output goes, its errors too; it has no input then. `None`: it has ours.
    pub command_output: Option<Arc<File>>,
}

/// Why a session failed.
#[derive(Debug, Error)]
pub enum SessionError {
    /// Something that tracing needs is missing.
    #[error(transparent)]
    Locked(#[from] Locked),
    /// The kernel cannot do what was asked.
    #[error(
        "this kernel ({release}) cannot attach in {mode} mode\nhint: multi links need Linux 6.6, \
         scoped ones 6.10; leave --attach out to take what the kernel can do"
    )]
    Unsupported {
        /// The mode that was asked for.
        mode: AttachMode,
        /// Kernel release.
        release: Release,
    },
    /// A command's first call would be missed.
    #[error(
        "forks cannot be followed on this kernel, which a command is traced by (cudasnoop doctor says \
         why)\nhint: start the command, and trace it with -p PID"
    )]
    CommandNotFollowed,
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
    /// Processes were probed at entries alone: the counts of errors, bytes and time lack theirs.
    pub entries_only: bool,
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
    make_sink: impl FnOnce(Sources) -> Result<Box<dyn Sink>, SinkError>,
    observer: Option<Observer<'_>>,
) -> Result<Outcome, SessionError> {
    open_files::allow_many();
    let features = Features::detect();
    let mode = attach_mode(options, features)?;
    let is_command = matches!(options.target, Target::Command(_));
    let mut programs = Programs::load(&ProgramOptions {
        mode,
        features,
        ring_bytes: options.ring_bytes,
        threads: options.threads,
        count_only: options.count_only,
        hold: is_command,
        tell_of_starts: matches!(options.target, Target::Matching(_)),
    })?;
    if is_command && !programs.follows_tasks {
        return Err(SessionError::CommandNotFollowed);
    }
    if options.ebpf_log {
        crate::ebpf_log::start(programs.ebpf());
    }
    let (mut ring, ring_fill) = programs.take_ring()?;
    let mut armed = programs.take_armed()?;
    let mut state = programs.take_state(ring_fill)?;
    let mut sites = Sites::new(programs.take_sites()?, options.launch_returns);
    let prices = options.max_overhead.map(|share| {
        let measured = budget::calibrate(&mut programs, &mut sites, &mut ring, &mut state, mode);
        let prices = measured.unwrap_or_else(|error| {
            tracing::warn!("what a probe costs is not measured, but assumed: {error}");
            Prices::ASSUMED
        });
        tracing::info!(
            "a probe costs {:.0} ns at a call's entry and {:.0} ns at its return",
            prices.entry,
            prices.at_return
        );
        (share, prices)
    });
    let state = Arc::new(state);
    let counted = Arc::clone(&state);
    let sink = make_sink(Sources {
        clock: clock::anchor,
        counts: Box::new(move || account::counts(&counted)),
    })?;
    let stop = Arc::clone(&options.stop);
    let (control_tx, control_rx) = channel();
    let (inbox_tx, inbox_rx) = channel();
    let (names, patience) = if options.names_at_once {
        (Names::now(), PATIENCE_AT_ONCE)
    } else {
        let names = Names::later().map_err(SessionError::Start)?;
        (names, PATIENCE)
    };
    let lookout = Lookout::start(patience).map_err(SessionError::Start)?;
    let drain = Drain {
        ring,
        inbox: inbox_rx,
        control: control_tx.clone(),
        enricher: Enricher::new(names, lookout, sink.first_ids()),
        unloadings: LostUnloadings::new(Arc::clone(&state)),
        sink,
        stop: Arc::clone(&stop),
    };
    let drain =
        priority::spawn(Turn::First, "drain", move || drain.run()).map_err(SessionError::Start)?;
    let _ = inbox_tx.send(Inbox::Fact(settings(options, mode)));
    let _ = inbox_tx.send(Inbox::Fact(clock_event()));
    let budget = match prices {
        Some((share, prices)) => {
            let word = programs.take_windows()?;
            Some(Budget::new(share, prices, Arc::clone(&state), word))
        }
        None => None,
    };
    let controller = control::Controller::new(
        programs,
        mode,
        options,
        sites,
        budget,
        inbox_tx.clone(),
        Arc::clone(&stop),
    )?;
    let controller = priority::spawn(Turn::Next, "control", move || controller.run(&control_rx))
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
    let control = controller
        .join()
        .map_err(|_| SessionError::Panicked("control"))?;
    let totals = account::totals(&state)?;
    account::warn_of_unseen_tasks(&state)?;
    let (rows, in_flight) = account::rows(&state, &totals, control.cut);
    let _ = inbox_tx.send(Inbox::Finish(rows));
    let summary = drain.join().map_err(|_| SessionError::Panicked("drain"))?;
    let exit_code = waited?;
    Ok(Outcome {
        exit_code,
        totals,
        in_flight,
        summary: summary?,
        libraries: control.attached,
        entries_only: control.entries_only,
    })
}

/// The mode to attach in, if it and tracing at all are possible.
fn attach_mode(options: &Options, features: Features) -> Result<AttachMode, SessionError> {
    let is_command = matches!(options.target, Target::Command(_));
    let locks = Locks::try_all(features);
    // What the kernel can do is not known otherwise; most can do this.
    let best = if locks.bpf_works() {
        features.attach_mode(is_command)
    } else {
        AttachMode::Scoped
    };
    let mode = options.attach.unwrap_or(best);
    locks.allow(mode)?;
    let release = Release::running();
    let supported = match mode {
        AttachMode::Scoped => features.process_filter,
        AttachMode::Shared => features.multi_links,
        AttachMode::Single => true,
    };
    if !supported {
        return Err(SessionError::Unsupported { mode, release });
    }
    if mode == AttachMode::Single && options.attach.is_none() {
        tracing::warn!(
            "this kernel ({release}) has no multi links: each probe is attached by itself, and \
             detaching takes about 0.1 s a probe"
        );
    }
    Ok(mode)
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
        Target::Pids(_) | Target::Matching(_) => None,
    };
    let fact = Fact::Settings(fact::Settings {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: Release::running().to_string(),
        host,
        attach: mode.name().to_owned(),
        events: options
            .families
            .iter()
            .map(|family| family.name().to_owned())
            .collect(),
        ring_bytes: options.ring_bytes.into(),
        launch_returns: options.launch_returns,
        max_overhead: options.max_overhead.map(Share::ratio),
        command,
        pod: pod(),
        boot_id: boot_id(),
        pid_namespace: pid_namespace(),
    });
    fact_event(0, 0, monotonic(), &fact)
}

/// The kernel's id of this boot.
pub(crate) fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// The number of our pid namespace.
fn pid_namespace() -> Option<u64> {
    let namespace = std::fs::metadata("/proc/self/ns/pid").ok()?;
    Some(std::os::unix::fs::MetadataExt::ino(&namespace))
}

/// What the manifest tells of the pod that we run in.
pub(crate) fn pod() -> Option<fact::Pod> {
    let told = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let pod = fact::Pod {
        name: told("POD_NAME"),
        namespace: told("POD_NAMESPACE"),
        uid: told("POD_UID"),
        node: told("NODE_NAME"),
    };
    (pod != fact::Pod::default()).then_some(pod)
}
