//! A disk that does nothing until it is told to.

use std::{
    path::Path,
    sync::mpsc::{Receiver, Sender, channel, sync_channel},
};

use trace::Reader;

use super::super::{
    delivery::QUEUE,
    disk::{Disk, Order},
    folder::Folder,
    status::Cause,
};
use super::*;

const BUDGET: u64 = 64 << 20;
/// Rows of a batch.
const ROWS: usize = 16_384;

struct Slow {
    working: Working,
    disk: Disk,
    ordered: Receiver<Order>,
    answers: Sender<Told>,
    monitor: Arc<Monitor>,
}

impl Slow {
    fn new(path: &Path) -> Self {
        let monitor = Arc::new(Monitor::default());
        let folder = Folder::open(path, BUDGET, Arc::clone(&monitor)).expect("a folder");
        let (orders, ordered) = sync_channel(QUEUE);
        let (answers, told) = channel();
        let keeper = Keeper {
            delivery: Delivery::new(orders, told, Arc::clone(&monitor)),
            sources: Sources {
                clock: || fact::Clock {
                    monotonic: 1,
                    boottime: 1,
                    realtime: 1,
                },
                counts: Box::new(|| None),
            },
            monitor: Arc::clone(&monitor),
            segment_bytes: BUDGET,
            boot_id: String::new(),
            ledger: Ledger::default(),
            standing: Standing::default(),
            away: Away::nobody(),
            next_number: 1,
            last_stamp: String::new(),
            next_seq: 0,
            events: 0,
        };
        let mut slow = Self {
            working: keeper.start(),
            disk: Disk::new(path.to_owned(), BUDGET, folder, Arc::clone(&monitor)),
            ordered,
            answers,
            monitor,
        };
        slow.disk_works();
        slow
    }

    /// The disk does all that is ordered, and the keeper hears of it.
    fn disk_works(&mut self) {
        while let Ok(order) = self.ordered.try_recv() {
            let told = self.disk.obey(order);
            self.answers.send(told).expect("the keeper listens");
        }
        self.working.look_after();
    }

    fn launches(&mut self, count: usize) {
        for _ in 0..count {
            self.working.take(Event {
                api: ApiId::by_name("cudaLaunchKernel"),
                ..Event::default()
            });
        }
        self.working.look_after();
    }
}

fn events(folder: &Path) -> Vec<Vec<Event>> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let read = |path| {
        let file = std::fs::File::open(path).expect("opened");
        let batches = Reader::new(file).expect("a recording");
        batches
            .flat_map(|batch| batch.expect("readable").iter().collect::<Vec<_>>())
            .collect()
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn a_slow_disk_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut slow = Slow::new(folder.path());
    // More than may wait for the disk, which does nothing.
    slow.launches(ROWS * (QUEUE + 1) + 5);
    let status = slow.monitor.status();
    let lost = ROWS as u64 + 5;
    assert!(!status.is_writing);
    assert_eq!(status.unwritten.get(&Cause::DiskSlow), Some(&lost));
    assert!(status.last_error.is_some());
    // While orders wait, no other segment begins.
    slow.launches(10);
    slow.disk_works();
    slow.disk_works();
    assert!(slow.monitor.status().is_writing);
    slow.launches(7);
    let Slow {
        mut working,
        disk,
        ordered,
        answers,
        ..
    } = slow;
    let writer = std::thread::spawn(move || disk.run(ordered, &answers));
    if let Some(batch) = working.batches.flush() {
        working.hand_over(batch);
    }
    working.keeper.delivery.finish();
    writer.join().expect("it ends");

    let segments = events(folder.path());
    assert_eq!(segments.len(), 2);
    let launches = |events: &[Event]| {
        events
            .iter()
            .filter(|event| event.kind == Kind::Call)
            .count()
    };
    assert_eq!(launches(&segments[0]), ROWS * QUEUE, "all that was ordered");
    assert_eq!(launches(&segments[1]), 7);
    let texts = segments[1].iter().filter_map(|event| event.text.as_deref());
    let unwritten: Vec<Fact> = texts
        .filter_map(Fact::parse)
        .filter(|fact| matches!(fact, Fact::Unwritten(_)))
        .collect();
    let told = Fact::Unwritten(fact::Unwritten {
        events: lost + 10,
        cause: "disk_slow".to_owned(),
    });
    assert_eq!(unwritten, [told]);
}
