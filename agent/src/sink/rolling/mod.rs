//! A recording within a disk budget: segments, of which the oldest go first.
//!
//! ```text
//! drain ──chunks──► keeper ──────────orders──► disk
//!                   ledger, facts in force,    encodes, makes room, writes
//!                   accounts, batches    ◄───answers
//! ```
//!
//! Each segment is a recording of its own: it begins with all that is known (docs/format.md), so
//! that it can be read without those before it. The keeper never waits for the disk, so the drain
//! does not either: what cannot be written is counted, a segment with a hole ends before it, and
//! the next one begins with the state as it is then.

mod accounts;
mod away;
mod delivery;
mod disk;
mod folder;
mod keeper;
mod resume;
mod size;
mod stamp;
mod standing;
mod status;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{SyncSender, channel, sync_channel},
    },
    thread::JoinHandle,
};

use ledger::Ledger;
use trace::Event;

pub use folder::FolderError;
pub use status::{Cause, Monitor, Status};

use super::{Ids, Sink, SinkError, Sources, Summary};
use crate::{
    priority::{self, Turn},
    session::boot_id,
};
use away::Away;
use delivery::Delivery;
use disk::Disk;
use folder::Folder;
use keeper::{Keeper, Message};
use standing::Standing;

/// Events that go to the keeper at once.
const CHUNK: usize = 1024;
/// Chunks that may wait for it. It takes longest when it writes down what a segment begins with.
const CHUNKS: usize = 128;

/// How a rolling recording is to be kept.
#[derive(Clone, Debug)]
pub struct RollingOptions {
    /// The folder; it is made where it is not there.
    pub folder: PathBuf,
    /// The most bytes that may lie in it; at least [`RollingOptions::SMALLEST_BUDGET`].
    pub disk_bytes: u64,
    /// Whether processes that an earlier run traced may be traced by this one: what is known of
    /// them holds on.
    pub carry_on: bool,
}

impl RollingOptions {
    /// The smallest budget that makes sense.
    pub const SMALLEST_BUDGET: u64 = 1 << 20;
}

/// Keeps a rolling recording.
#[derive(Debug)]
pub struct Rolling {
    folder: PathBuf,
    chunk: Vec<Event>,
    messages: SyncSender<Message>,
    threads: [JoinHandle<()>; 2],
    monitor: Arc<Monitor>,
    first_ids: Ids,
}

impl Rolling {
    /// Takes the folder and writes the beginning of the first segment there.
    pub fn create(options: RollingOptions, sources: Sources) -> Result<Self, FolderError> {
        let RollingOptions {
            folder: path,
            disk_bytes,
            carry_on,
        } = options;
        let monitor = Arc::new(Monitor::default());
        monitor.lock().budget_bytes = disk_bytes;
        Folder::create(&path)?;
        let folder = Folder::open(&path, disk_bytes, Arc::clone(&monitor))?;
        let newest = folder.segments().next_back();
        let newest = newest.map(|segment| segment.name.clone());
        let (orders, ordered) = sync_channel(delivery::QUEUE);
        let (answers, told) = channel();
        let mut keeper = Keeper {
            delivery: Delivery::new(orders, told, Arc::clone(&monitor)),
            sources,
            monitor: Arc::clone(&monitor),
            segment_bytes: size::segment_bytes(disk_bytes),
            boot_id: boot_id().unwrap_or_default(),
            ledger: Ledger::default(),
            standing: Standing::default(),
            away: Away::nobody(),
            next_number: newest.as_ref().map_or(1, |name| name.number + 1),
            last_stamp: newest.map(|name| name.stamp).unwrap_or_default(),
            next_seq: 0,
            events: 0,
        };
        if let Some(resumed) = resume::read(&folder) {
            keeper.go_on_from(resumed, carry_on);
        }
        let first_ids = keeper.standing.first_free();
        let mut disk = Disk::new(path.clone(), disk_bytes, folder, Arc::clone(&monitor));
        let mut keeper = keeper.start();
        // The first order is obeyed here, so that a folder that cannot be written to is known
        // before anything is traced.
        if let Ok(order) = ordered.try_recv() {
            let told = disk.obey(order);
            if let Some(failure) = &told.failure {
                return Err(FolderError::Write {
                    path,
                    reason: failure.text.clone(),
                });
            }
            keeper.hear(told);
        }
        let (messages, inbox) = sync_channel(CHUNKS);
        let threads = [
            priority::spawn(Turn::Next, "keeper", move || keeper.run(&inbox)),
            priority::spawn(Turn::Next, "writer", move || disk.run(ordered, &answers)),
        ];
        let [keeper, writer] = threads;
        Ok(Self {
            folder: path,
            chunk: Vec::with_capacity(CHUNK),
            messages,
            threads: [
                keeper.map_err(FolderError::Start)?,
                writer.map_err(FolderError::Start)?,
            ],
            monitor,
            first_ids,
        })
    }

    /// How it goes, for whoever shows it.
    pub fn monitor(&self) -> Arc<Monitor> {
        Arc::clone(&self.monitor)
    }

    fn send(&mut self, message: Message) -> Result<(), SinkError> {
        self.messages.send(message).map_err(|_| self.panicked())
    }

    fn send_chunk(&mut self) -> Result<(), SinkError> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let next = Vec::with_capacity(CHUNK);
        let chunk = std::mem::replace(&mut self.chunk, next);
        self.send(Message::Events(chunk))
    }

    fn panicked(&self) -> SinkError {
        SinkError::Panicked {
            path: self.folder.clone(),
        }
    }
}

impl Sink for Rolling {
    fn first_ids(&self) -> Ids {
        self.first_ids
    }

    fn event(&mut self, event: &Event) -> Result<(), SinkError> {
        self.chunk.push(event.clone());
        if self.chunk.len() == CHUNK {
            self.send_chunk()?;
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), SinkError> {
        self.send_chunk()?;
        self.send(Message::Tick)
    }

    fn finish(mut self: Box<Self>) -> Result<Summary, SinkError> {
        self.send_chunk()?;
        let panicked = self.panicked();
        let Self {
            messages,
            threads,
            monitor,
            ..
        } = *self;
        drop(messages);
        for thread in threads {
            if thread.join().is_err() {
                return Err(panicked);
            }
        }
        let status = monitor.status();
        Ok(Summary {
            events: status.events,
            bytes: status.written_bytes,
        })
    }
}
