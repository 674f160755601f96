//! A sink in a thread of its own, which nothing waits for: where its output is slow, it misses
//! events, and the ring buffer is emptied all the same.

use std::{
    sync::mpsc::{SyncSender, TrySendError, sync_channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use trace::Event;

use super::{Sink, SinkError, Summary};

/// Events that are handed over at a time, and how many such chunks may wait.
const CHUNK: usize = 256;
const QUEUE: usize = 64;
/// At the end, what waits is passed on for at most so long.
const LAST: Duration = Duration::from_millis(500);
/// How often missed events are told.
const TELL: Duration = Duration::from_secs(10);

/// Passes events to a sink in another thread.
#[derive(Debug)]
pub struct Apart {
    name: &'static str,
    chunk: Vec<Event>,
    chunks: SyncSender<Vec<Event>>,
    thread: JoinHandle<Result<Summary, SinkError>>,
    /// Events that found the queue full, since they were last told.
    missed: u64,
    told: Instant,
}

impl Apart {
    /// Runs `sink`; `name` says what it is for.
    pub fn new(name: &'static str, mut sink: Box<dyn Sink>) -> Result<Self, SinkError> {
        let (chunks, queue) = sync_channel::<Vec<Event>>(QUEUE);
        let thread = thread::Builder::new()
            .name("apart".to_owned())
            .spawn(move || {
                for chunk in queue {
                    for event in &chunk {
                        sink.event(event)?;
                    }
                    sink.tick()?;
                }
                sink.finish()
            })
            .map_err(|source| SinkError::Thread { name, source })?;
        Ok(Self {
            name,
            chunk: Vec::with_capacity(CHUNK),
            chunks,
            thread,
            missed: 0,
            told: Instant::now(),
        })
    }

    /// Hands the chunk over, if there is room. A thread that has ended tells why at the end.
    fn hand_over(&mut self) {
        if self.chunk.is_empty() {
            return;
        }
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK));
        let missed = match self.chunks.try_send(chunk) {
            Ok(()) => 0,
            Err(TrySendError::Full(chunk) | TrySendError::Disconnected(chunk)) => chunk.len(),
        };
        self.missed += missed as u64;
    }

    fn tell(&mut self) {
        if self.missed > 0 && self.told.elapsed() >= TELL {
            tracing::warn!(
                "{}: {} events left out, for they came faster than they could be written",
                self.name,
                self.missed
            );
            self.missed = 0;
            self.told = Instant::now();
        }
    }
}

impl Sink for Apart {
    fn event(&mut self, event: &Event) -> Result<(), SinkError> {
        self.chunk.push(event.clone());
        if self.chunk.len() == CHUNK {
            self.hand_over();
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), SinkError> {
        self.hand_over();
        self.tell();
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Summary, SinkError> {
        self.hand_over();
        let Self {
            name,
            chunks,
            thread,
            ..
        } = *self;
        drop(chunks);
        let until = Instant::now() + LAST;
        while !thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        if !thread.is_finished() {
            tracing::warn!("{name}: not all was written, for nobody takes it");
            return Ok(Summary::default());
        }
        thread.join().unwrap_or_else(|_| Ok(Summary::default()))
    }
}
