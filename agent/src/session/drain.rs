//! The drain: the thread that empties the ring buffer and feeds the sink.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, TryRecvError},
    },
    time::{Duration, Instant},
};

use agent_common::{
    Api, ApiId, CallRecord, Effect, HEADER_LEN, Header, LongCallRecord, NameRecord, RecordKind,
    TaskRecord,
};
use aya::maps::{MapData, RingBuf};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use trace::{Event, Fact};
use zerocopy::FromBytes as _;

use super::{
    clock,
    control::{Control, Task, release},
    enrich::{Enricher, fact_event},
    lost_unloadings::LostUnloadings,
    names::Snapshot,
    stop::Stop,
};
use crate::sink::{Sink, SinkError, Summary};

/// What others tell the drain.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "few at a time, and most are the large one"
)]
pub(super) enum Inbox {
    /// A fact to record.
    Fact(Event),
    /// What a process maps.
    Mapped(Snapshot),
    /// An ended process has no probes left, and nothing more is said of it.
    Gone { pid: u32 },
    /// A held process was dealt with and goes on.
    Released { pid: u32 },
    /// Probes are off: empty the ring, add these rows, end.
    Finish(Vec<Event>),
}

impl Inbox {
    /// Since when it holds, ns of `CLOCK_MONOTONIC`: records that are younger come after it, older
    /// ones before. 0: it concerns no order.
    fn since(&self) -> u64 {
        match self {
            Self::Fact(event) => event.timestamp,
            Self::Mapped(_) | Self::Gone { .. } | Self::Released { .. } | Self::Finish(_) => 0,
        }
    }
}

/// Records taken from the ring before anything else is looked at.
const BURST: usize = 4096;
/// How long to sleep when the ring is empty: short while events come, longer when idle.
const BUSY_WAIT: Duration = Duration::from_millis(2);
const IDLE_WAIT: Duration = Duration::from_millis(50);
/// How often the sink may do what it does from time to time.
const TICK: Duration = Duration::from_millis(250);
/// How often the clocks are read.
const CLOCK_INTERVAL: Duration = Duration::from_secs(30);

/// Empties the ring.
pub(super) struct Drain {
    pub(super) ring: RingBuf<MapData>,
    pub(super) inbox: Receiver<Inbox>,
    pub(super) control: Sender<Control>,
    pub(super) enricher: Enricher,
    pub(super) unloadings: LostUnloadings,
    pub(super) sink: Box<dyn Sink>,
    pub(super) stop: Arc<Stop>,
}

/// Hands events to the sink; remembers its first failure and stops the session then.
struct Outlet {
    sink: Box<dyn Sink>,
    stop: Arc<Stop>,
    failure: Option<SinkError>,
}

impl Outlet {
    fn emit(&mut self, event: &Event) {
        if self.failure.is_none()
            && let Err(error) = self.sink.event(event)
        {
            self.fail(error);
        }
    }

    fn tick(&mut self) {
        if self.failure.is_none()
            && let Err(error) = self.sink.tick()
        {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: SinkError) {
        self.failure = Some(error);
        self.stop.request();
    }

    fn finish(self) -> Result<Summary, SinkError> {
        match self.failure {
            Some(error) => Err(error),
            None => self.sink.finish(),
        }
    }
}

impl Drain {
    /// Runs until told to finish; gives the sink's summary.
    pub(super) fn run(self) -> Result<Summary, SinkError> {
        let Self {
            mut ring,
            inbox,
            control,
            enricher,
            mut unloadings,
            sink,
            stop,
        } = self;
        let outlet = Outlet {
            sink,
            stop,
            failure: None,
        };
        let mut worker = Worker {
            inbox,
            control,
            enricher,
            outlet,
            next: None,
            heard: 0,
            held: Vec::new(),
            last_rows: None,
        };
        let (mut last_tick, mut last_clock) = (Instant::now(), Instant::now());
        let mut wait = BUSY_WAIT;
        while worker.last_rows.is_none() {
            let now = clock::monotonic();
            let taken = worker.burst(&mut ring);
            if taken < BURST {
                worker.hear_until(now);
            }
            worker.poll_names(if taken < BURST { now } else { 0 });
            if last_clock.elapsed() >= CLOCK_INTERVAL {
                last_clock = Instant::now();
                worker.outlet.emit(&clock_event());
            }
            if last_tick.elapsed() >= TICK {
                last_tick = Instant::now();
                if unloadings.are_more() {
                    worker.enricher.missed_anywhere();
                }
                worker.outlet.tick();
            }
            if taken == 0 && worker.next.is_none() {
                wait_for(ring.as_fd(), wait);
                wait = (wait * 2).min(IDLE_WAIT);
            } else {
                wait = BUSY_WAIT;
            }
        }
        while worker.burst(&mut ring) > 0 {}
        let Worker {
            enricher,
            mut outlet,
            held,
            last_rows,
            ..
        } = worker;
        // Control ended without coming to them.
        held.into_iter().for_each(release);
        enricher.finish(&mut |event| outlet.emit(event));
        for row in last_rows.iter().flatten() {
            outlet.emit(row);
        }
        outlet.emit(&clock_event());
        outlet.emit(&fact_event(0, 0, clock::monotonic(), &Fact::End));
        outlet.finish()
    }
}

/// What the drain does with records and messages.
struct Worker {
    inbox: Receiver<Inbox>,
    control: Sender<Control>,
    enricher: Enricher,
    outlet: Outlet,
    /// A message that holds only since a moment that the records have not come to.
    next: Option<Inbox>,
    /// What was told before that moment has been taken in, ns of `CLOCK_MONOTONIC`.
    heard: u64,
    /// Processes that stand stopped until control has dealt with them.
    held: Vec<u32>,
    /// The rows to end with, once probes are off.
    last_rows: Option<Vec<Event>>,
}

impl Worker {
    /// Takes records until the ring is empty or the burst is full; says how many.
    fn burst(&mut self, ring: &mut RingBuf<MapData>) -> usize {
        let mut taken = 0;
        while taken < BURST
            && let Some(item) = ring.next()
        {
            taken += 1;
            self.record(&item);
        }
        taken
    }

    /// Takes in the messages that hold since before `timestamp`.
    fn hear_until(&mut self, timestamp: u64) {
        loop {
            let now = clock::monotonic();
            let message = match self.next.take().map_or_else(|| self.inbox.try_recv(), Ok) {
                Ok(message) => message,
                Err(TryRecvError::Empty) => {
                    self.heard = now;
                    return;
                }
                Err(TryRecvError::Disconnected) => {
                    self.heard = u64::MAX;
                    self.last_rows.get_or_insert_default();
                    return;
                }
            };
            if message.since() >= timestamp {
                self.heard = message.since();
                self.next = Some(message);
                return;
            }
            self.message(message);
        }
    }

    fn message(&mut self, message: Inbox) {
        match message {
            Inbox::Fact(event) => {
                if let Some(Fact::Gap(gap)) = event.text.as_deref().and_then(Fact::parse) {
                    self.enricher.missed(gap.pid, event.timestamp);
                }
                self.outlet.emit(&event);
            }
            Inbox::Mapped(snapshot) => self.enricher.mapped(snapshot),
            Inbox::Gone { pid } => self.enricher.gone(pid),
            Inbox::Released { pid } => {
                if let Some(at) = self.held.iter().position(|held| *held == pid) {
                    self.held.swap_remove(at);
                }
            }
            Inbox::Finish(rows) => self.last_rows = Some(rows),
        }
    }

    /// All records from before `heard` have been taken in, ns of `CLOCK_MONOTONIC`.
    fn poll_names(&mut self, heard: u64) {
        let Self {
            enricher, outlet, ..
        } = self;
        enricher.poll(heard, &mut |event| outlet.emit(event));
    }

    fn record(&mut self, bytes: &[u8]) {
        let header = Header::read_from_prefix(bytes).ok();
        if let Some((Header { timestamp, .. }, _)) = header
            && timestamp > self.heard
        {
            self.hear_until(timestamp);
        }
        let kind = header.and_then(|(header, _)| RecordKind::from_u8(header.kind));
        let Self {
            enricher, outlet, ..
        } = self;
        match kind {
            Some(RecordKind::Call | RecordKind::Begin | RecordKind::Abandoned) => {
                if let Some(record) = LongCallRecord::read(bytes) {
                    enricher.call(&record, &mut |event| outlet.emit(event));
                    if begins_capture(&record) {
                        let _ = self.control.send(Control::Task(Task::CaptureBegan));
                    }
                }
            }
            Some(RecordKind::KernelName) => {
                if let Ok((record, _)) = NameRecord::ref_from_prefix(bytes) {
                    enricher.kernel_name(record);
                }
            }
            Some(RecordKind::KernelPair) => {
                if let Ok((record, _)) = CallRecord::read_from_prefix(bytes) {
                    enricher.kernel_pair(&record);
                }
            }
            Some(RecordKind::Registered) => {
                if let Ok((record, _)) = CallRecord::read_from_prefix(bytes) {
                    enricher.registered(&record);
                }
            }
            Some(
                kind @ (RecordKind::Fork
                | RecordKind::Exec
                | RecordKind::Exit
                | RecordKind::Started
                | RecordKind::CudaStarted
                | RecordKind::Mapped
                | RecordKind::Held),
            ) => {
                if let Ok((record, _)) = TaskRecord::read_from_prefix(bytes) {
                    self.task(kind, &record);
                }
            }
            None => tracing::warn!(
                "a record of {} bytes (at least {HEADER_LEN} expected) is of no known kind",
                bytes.len()
            ),
        }
    }

    fn task(&mut self, kind: RecordKind, record: &TaskRecord) {
        let Header {
            timestamp,
            pid,
            tid,
            ..
        } = record.header;
        // The kernel's process ids have 22 bits.
        let child = u32::try_from(record.child).unwrap_or(0);
        let Self {
            control,
            enricher,
            outlet,
            ..
        } = self;
        let tell = |task| control.send(Control::Task(task)).is_ok();
        let fact = match kind {
            RecordKind::Fork => {
                enricher.fork(pid, tid, child);
                tell(Task::Fork {
                    parent: pid,
                    child,
                    timestamp,
                });
                Fact::Fork { child }
            }
            RecordKind::Exec => {
                enricher.exec(pid, &mut |event| outlet.emit(event));
                tell(Task::Exec { pid, timestamp });
                Fact::Exec
            }
            RecordKind::Started => {
                tell(Task::Started { pid, timestamp });
                return;
            }
            RecordKind::CudaStarted => {
                tell(Task::CudaStarted { pid, timestamp });
                return;
            }
            RecordKind::Exit => {
                enricher.ended(pid, &mut |event| outlet.emit(event));
                tell(Task::Exit { pid });
                Fact::Exit
            }
            RecordKind::Mapped => {
                tell(Task::Mapped {
                    pid,
                    timestamp,
                    cuda: record.child != 0,
                });
                return;
            }
            RecordKind::Held => {
                let task = Task::Held {
                    pid,
                    tid,
                    timestamp,
                };
                if tell(task) {
                    // What control learns of it is here before its next record is: control says it
                    // before it lets it go on, and messages come before younger records.
                    self.held.push(pid);
                } else {
                    release(pid);
                }
                return;
            }
            RecordKind::Call
            | RecordKind::Begin
            | RecordKind::Abandoned
            | RecordKind::KernelName
            | RecordKind::KernelPair
            | RecordKind::Registered => return,
        };
        self.outlet.emit(&fact_event(pid, tid, timestamp, &fact));
    }
}

/// Whether it tells that a capture of a stream has begun.
fn begins_capture(record: &LongCallRecord) -> bool {
    let is_begin = |api: &Api| api.effect == Effect::CaptureBegin;
    record.call.result == 0 && ApiId(record.call.header.api).api().is_some_and(is_begin)
}

pub(crate) fn clock_event() -> Event {
    let clock = clock::anchor();
    fact_event(0, 0, clock.monotonic, &Fact::Clock(clock))
}

fn wait_for(fd: BorrowedFd<'_>, duration: Duration) {
    let timeout = PollTimeout::try_from(duration).unwrap_or(PollTimeout::ZERO);
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    if let Err(error) = poll(&mut fds, timeout)
        && error != nix::Error::EINTR
    {
        tracing::debug!("waiting for the ring buffer: {}", io::Error::from(error));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError, mpsc::channel};

    use zerocopy::IntoBytes as _;

    use super::{
        super::{handles::Lookout, names::Names},
        *,
    };
    use crate::sink::Ids;

    /// Whose events came.
    #[derive(Clone, Debug, Default)]
    struct Seen(Arc<Mutex<Vec<u32>>>);

    impl Sink for Seen {
        fn event(&mut self, event: &Event) -> Result<(), SinkError> {
            let mut pids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            pids.push(event.pid);
            Ok(())
        }

        fn tick(&mut self) -> Result<(), SinkError> {
            Ok(())
        }

        fn finish(self: Box<Self>) -> Result<Summary, SinkError> {
            Ok(Summary::default())
        }
    }

    fn ended(pid: u32) -> TaskRecord {
        task(RecordKind::Exit, pid)
    }

    fn task(kind: RecordKind, pid: u32) -> TaskRecord {
        TaskRecord {
            header: Header {
                kind: kind as u8,
                timestamp: clock::monotonic(),
                pid,
                tid: pid,
                reserved: 0,
                api: 0,
                flags: 0,
            },
            child: 0,
        }
    }

    /// A drain's worker, and what it is connected with.
    struct Connected {
        worker: Worker,
        seen: Seen,
        messages: Sender<Inbox>,
        requests: Receiver<Control>,
    }

    fn connected() -> Connected {
        let seen = Seen::default();
        let (messages, inbox) = channel();
        let (control, requests) = channel();
        let lookout = Lookout::start(Duration::ZERO).expect("a thread");
        let worker = Worker {
            inbox,
            control,
            enricher: Enricher::new(Names::now(), lookout, Ids::default()),
            outlet: Outlet {
                sink: Box::new(seen.clone()),
                stop: Arc::default(),
                failure: None,
            },
            next: None,
            heard: 0,
            held: Vec::new(),
            last_rows: None,
        };
        Connected {
            worker,
            seen,
            messages,
            requests,
        }
    }

    #[test]
    fn what_is_told_comes_between_older_and_younger_records() {
        let Connected {
            mut worker,
            seen,
            messages,
            requests: _requests,
        } = connected();
        let tell = |pid| {
            let fact = fact_event(pid, pid, clock::monotonic(), &Fact::Vanished);
            messages.send(Inbox::Fact(fact)).expect("heard");
        };
        let first = ended(1);
        tell(2);
        let second = ended(3);
        tell(4);
        let third = ended(5);
        // The drain slept through all of it. Calls are recorded in the order of their ends.
        for record in [second, first, third] {
            worker.record(record.as_bytes());
        }
        tell(6);
        worker.hear_until(clock::monotonic());
        tell(7);
        let last = ended(8);
        worker.record(last.as_bytes());
        let pids = seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(*pids, [2, 3, 1, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_held_process_keeps_no_other_waiting() {
        let Connected {
            mut worker,
            seen,
            messages,
            requests,
        } = connected();
        worker.record(task(RecordKind::Held, 2).as_bytes());
        assert!(matches!(
            requests.try_recv(),
            Ok(Control::Task(Task::Held { pid: 2, .. }))
        ));
        worker.record(ended(3).as_bytes());
        assert_eq!(worker.held, [2]);
        let fact = fact_event(4, 4, clock::monotonic(), &Fact::Vanished);
        messages.send(Inbox::Fact(fact)).expect("heard");
        let released = Inbox::Released { pid: 2 };
        messages.send(released).expect("heard");
        worker.record(ended(2).as_bytes());
        assert!(worker.held.is_empty());
        let pids = seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(*pids, [3, 4, 2]);
    }
}
