//! The rolling recording, with events of which everything is known.
#![expect(clippy::expect_used, reason = "a test panics with what it expected")]

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use agent::{
    discover::Process,
    sink::{Counts, Monitor, Rolling, RollingOptions, Sink as _, Sources},
};
use agent_common::{ApiId, Counters};
use ledger::Ledger;
use trace::{Event, Fact, Kind, Reader, fact};

const MIB: u64 = 1 << 20;
const BUDGET: u64 = 4 * MIB;
/// Bytes of each block; a page of its own.
const BLOCK: u64 = 2 * MIB;

/// What the kernel would have counted.
#[derive(Clone, Debug, Default)]
struct Kernel(Arc<Mutex<Vec<(ApiId, Counters)>>>);

impl Kernel {
    fn made(&self, api: ApiId) {
        let mut functions = self.0.lock().expect("nobody panicked");
        let place = functions.iter().position(|(known, _)| *known == api);
        let place = place.unwrap_or_else(|| {
            functions.push((api, Counters::default()));
            functions.len() - 1
        });
        functions[place].1.made += 1;
        functions[place].1.reported += 1;
    }
}

/// A program, and a recorder that watches it.
struct Run {
    sink: Box<Rolling>,
    monitor: Arc<Monitor>,
    kernel: Kernel,
    program: fact::Process,
    /// Blocks that live, by number.
    live: Vec<u64>,
    next_block: u64,
    clock: u64,
}

fn clock() -> fact::Clock {
    // Later each time.
    static NOW: AtomicU64 = AtomicU64::new(1_000_000_000);
    let now = NOW.fetch_add(1_000, Ordering::Relaxed);
    fact::Clock {
        monotonic: now,
        boottime: now,
        realtime: now + 1_790_000_000_000_000_000,
    }
}

fn api(name: &str) -> ApiId {
    ApiId::by_name(name).expect("in the table")
}

fn address(block: u64) -> u64 {
    0x7f00_0000_0000 + block * BLOCK
}

impl Run {
    fn start(folder: &Path, program: fact::Process) -> Self {
        let kernel = Kernel::default();
        let counted = kernel.clone();
        let sources = Sources {
            clock,
            counts: Box::new(move || {
                Some(Counts {
                    functions: counted.0.lock().expect("nobody panicked").clone(),
                    recursion_misses: 0,
                })
            }),
        };
        let options = RollingOptions {
            folder: folder.to_owned(),
            disk_bytes: BUDGET,
            carry_on: true,
        };
        let sink = Box::new(Rolling::create(options, sources).expect("a folder to write into"));
        let monitor = sink.monitor();
        let mut run = Self {
            sink,
            monitor,
            kernel,
            program: program.clone(),
            live: Vec::new(),
            next_block: 0,
            clock: clock().monotonic,
        };
        run.fact(&Fact::Process(program));
        run
    }

    fn send(&mut self, event: Event) {
        self.clock += 1000;
        if let (Kind::Call, Some(api)) = (event.kind, event.api) {
            self.kernel.made(api);
        }
        let event = Event {
            timestamp: self.clock,
            pid: self.program.pid,
            tid: self.program.pid,
            ..event
        };
        self.sink.event(&event).expect("taken");
    }

    fn fact(&mut self, fact: &Fact) {
        self.send(Event {
            kind: Kind::Fact,
            text: Some(fact.to_text()),
            ..Event::default()
        });
    }

    fn caller(&mut self, id: u32, module: &str) {
        self.fact(&Fact::Caller(fact::Caller {
            id,
            module: Some(module.to_owned()),
        }));
    }

    fn allocate(&mut self, caller: u32) {
        let block = self.next_block;
        self.next_block += 1;
        self.live.push(block);
        self.send(Event {
            api: Some(api("cudaMalloc")),
            result: Some(0),
            duration: Some(100),
            device: Some(0),
            address: Some(address(block)),
            size: Some(i64::try_from(BLOCK).expect("small")),
            caller: Some(caller),
            ..Event::default()
        });
    }

    fn free_oldest(&mut self) {
        let block = self.live.remove(0);
        let free = Event {
            api: Some(api("cudaFree")),
            address: Some(address(block)),
            ..Event::default()
        };
        self.send(Event {
            kind: Kind::Begin,
            ..free.clone()
        });
        self.send(Event {
            result: Some(0),
            duration: Some(50),
            ..free
        });
    }

    fn launch(&mut self, kernel: u32, noise: u64) {
        self.send(Event {
            api: Some(api("cudaLaunchKernel")),
            kernel: Some(kernel),
            // So that rows have a size.
            stream: Some(noise.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            shared_memory: Some(noise.wrapping_mul(0xbf58_476d_1ce4_e5b9)),
            ..Event::default()
        });
    }

    /// Rows enough for some segments.
    fn work(&mut self, rounds: u64) {
        for round in 0..rounds {
            self.launch(3, round * 7919 + self.clock);
            if round % 100 == 0 {
                self.allocate(1);
                if self.live.len() > 50 {
                    self.free_oldest();
                }
            }
        }
        self.settle();
    }

    /// Waits until everything sent was taken.
    fn settle(&mut self) {
        let mut quiet = 0;
        let mut before = None;
        while quiet < 5 {
            self.sink.tick().expect("taken");
            thread::sleep(Duration::from_millis(20));
            let status = self.monitor.status();
            let now = (status.events, status.written_bytes, status.segments_begun);
            quiet = if before == Some(now) { quiet + 1 } else { 0 };
            before = Some(now);
        }
    }

    fn finish(mut self) {
        self.fact(&Fact::End);
        self.sink.finish().expect("finished");
    }
}

fn program(pid: u32, start_time: u64) -> fact::Process {
    fact::Process {
        pid,
        namespace_pid: pid,
        start_time,
        parent: 1,
        exe: "/usr/bin/train".to_owned(),
        title: "train".to_owned(),
        command: "train".to_owned(),
        from_start: true,
        visible_devices: None,
        container: None,
        pod_uid: None,
        entry_only: None,
    }
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().contains(".arrows"))
        .collect();
    paths.sort();
    paths
}

fn events(path: &Path) -> Vec<Event> {
    let reader = Reader::new(File::open(path).expect("opened")).expect("a recording");
    reader
        .flat_map(|batch| batch.expect("readable").iter().collect::<Vec<_>>())
        .collect()
}

fn facts(events: &[Event]) -> Vec<Fact> {
    let texts = events.iter().filter_map(|event| event.text.as_deref());
    texts.filter_map(Fact::parse).collect()
}

fn ledger(events: &[Event]) -> Ledger {
    let mut ledger = Ledger::default();
    for event in events {
        ledger.apply(event);
    }
    assert_eq!(ledger.damaged_checkpoints(), 0);
    ledger
}

fn live_bytes(ledger: &Ledger, pid: u32) -> u64 {
    let process = ledger.process(pid);
    process.map_or(0, |process| process.devices()[&Some(0)].live().bytes)
}

fn on_disk(folder: &Path) -> u64 {
    let sizes = segments(folder).into_iter();
    sizes
        .map(|path| path.metadata().map_or(0, |file| file.len()))
        .sum()
}

#[test]
fn each_segment_tells_all_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let foreign = folder.path().join("cudasnoop-notes.arrows");
    fs::write(&foreign, vec![7; 1 << 20]).expect("written");
    let mut run = Run::start(folder.path(), program(77, 7));
    run.caller(1, "/lib/libtorch.so");
    run.fact(&Fact::Kernel(fact::Kernel {
        id: 3,
        name: Some("gemm".to_owned()),
        module: None,
        handle: 0x33,
    }));
    for _ in 0..40 {
        run.work(20_000);
        let ours = on_disk(folder.path()) - (1 << 20);
        assert!(ours <= BUDGET, "{ours} of {BUDGET}");
    }
    let expected = run.live.len() as u64 * BLOCK;
    let status = run.monitor.status();
    assert!(status.segments_removed > 0 && status.segments_begun > 20);
    assert_eq!(status.all_unwritten(), 0);
    run.finish();
    assert_eq!(fs::read(&foreign).expect("there").len(), 1 << 20);

    let all: Vec<PathBuf> = segments(folder.path())
        .into_iter()
        .filter(|path| *path != foreign)
        .collect();
    assert!(all.len() > 5);
    let mut next: Option<(u64, u64, u64)> = None;
    let mut last_live = 0;
    for path in &all {
        let events = events(path);
        let facts = facts(&events);
        let Some(Fact::Segment(segment)) = facts.first() else {
            panic!("{}: no segment fact", path.display());
        };
        let header = events
            .iter()
            .position(|event| {
                event
                    .text
                    .as_ref()
                    .is_some_and(|text| text.contains(r#""part":"end""#))
            })
            .expect("a checkpoint");
        let made_here = |fact: &&Fact| matches!(fact, Fact::Account(_) | Fact::End);
        let closing = facts.iter().filter(made_here).count() as u64;
        let rows = (events.len() - header - 1) as u64;
        if let Some((number, seq, events_before)) = next {
            // One goes on from the other without a hole.
            assert_eq!(segment.number, number);
            assert_eq!(events[0].seq, seq);
            assert_eq!(segment.events_before, events_before);
        }
        next = Some((
            segment.number + 1,
            events[events.len() - 1].seq + 1,
            segment.events_before + rows - closing,
        ));
        for (account, rows) in accounts(&facts, &events) {
            assert_eq!(
                account.carried_in + account.made,
                account.reported + account.carried_out,
                "{account:?}"
            );
            assert_eq!(account.reported, rows);
        }
        assert_eq!(facts.last(), Some(&Fact::End));
        let is_known = |wanted: &str| facts.iter().any(|fact| fact.to_text().contains(wanted));
        assert!(is_known("gemm") && is_known("/lib/libtorch.so") && is_known("/usr/bin/train"));
        last_live = live_bytes(&ledger(&events), 77);
        assert!(last_live > 0);
    }
    assert_eq!(last_live, expected);
}

fn accounts(facts: &[Fact], events: &[Event]) -> Vec<(fact::Account, u64)> {
    let of = |name: &str| {
        let rows = events
            .iter()
            .filter(|event| event.kind == Kind::Call && event.api == ApiId::by_name(name));
        rows.count() as u64
    };
    let accounts = facts.iter().filter_map(|fact| match fact {
        Fact::Account(account) => Some((account.clone(), of(&account.api))),
        _ => None,
    });
    accounts.collect()
}

/// A process that is there, and then is not.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("600").spawn().expect("started"))
    }

    fn program(&self) -> fact::Process {
        let process = Process::open(self.0.id()).expect("it runs");
        process.facts(true).expect("it can be looked at")
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("waited for");
    }
}

/// As after kill -9: the segment is not closed, and what is in no batch is lost.
fn abandon(run: Run) {
    drop(run);
    // The threads end by themselves when nobody sends any more; a killed recorder has neither
    // closed its segment nor written its end.
    thread::sleep(Duration::from_millis(200));
}

#[test]
fn a_recorder_that_comes_back_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let sleeper = Sleeper::start();
    let (stays, gone) = (sleeper.program(), program(4_194_303, 3));
    let mut run = Run::start(folder.path(), stays.clone());
    run.caller(1, "/lib/libtorch.so");
    for _ in 0..10 {
        run.allocate(1);
    }
    let pid = run.program.pid;
    run.program = gone.clone();
    run.fact(&Fact::Process(gone.clone()));
    run.allocate(1);
    run.settle();
    abandon(run);

    let mut run = Run::start(
        folder.path(),
        // An agent that attaches to it knows nothing of its start.
        fact::Process {
            from_start: false,
            ..stays
        },
    );
    assert_eq!(run.sink.first_ids().caller, 2, "1 is in use");
    run.next_block = 100;
    run.allocate(2);
    run.finish();
    let all = segments(folder.path());
    assert_eq!(all.len(), 2);
    let events = events(&all[1]);
    let ledger = ledger(&events);
    assert_eq!(live_bytes(&ledger, pid), 11 * BLOCK);
    let process = ledger.process(pid).expect("it lives");
    assert!(process.from_start(), "what came before is known");
    assert_eq!(process.counters().gaps, 1);
    let ended: Vec<_> = ledger.ended().collect();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].key().pid, gone.pid);
    let cause = ended[0].end().map(|end| end.cause.name());
    assert_eq!(cause, Some("unseen"));
    let gap = facts(&events).into_iter().find_map(|fact| match fact {
        Fact::Gap(gap) => Some(gap),
        _ => None,
    });
    let gap = gap.expect("a gap");
    assert!(gap.pid == pid && gap.duration.is_some());
}

#[test]
fn one_recorder_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = Run::start(folder.path(), program(1, 1));
    let options = RollingOptions {
        folder: folder.path().to_owned(),
        disk_bytes: BUDGET,
        carry_on: true,
    };
    let sources = Sources {
        clock,
        counts: Box::new(|| None),
    };
    let error = Rolling::create(options, sources).expect_err("it is taken");
    assert!(error.to_string().contains("another cudasnoop"), "{error}");
    run.finish();
}
