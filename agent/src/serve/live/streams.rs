//! Recordings that are streamed: what each is given, and how it begins.
//!
//! The drain hands events over in chunks and never waits: a stream whose reader is too slow is cut,
//! and its recording has no end. A thread of the stream's own makes the recording of them
//! (`serve/stream.rs`).

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use ledger::Ledger;
use trace::{Event, Fact, Kind};

/// Events that are handed over at a time.
const CHUNK: usize = 1024;
/// Chunks that may wait for a stream's thread.
const QUEUE: usize = 32;
/// Most facts about libraries that are kept for recordings to begin with.
const MODULES: usize = 1024;

/// What a stream is told.
#[derive(Debug)]
pub(in crate::serve) enum Message {
    /// These happened.
    Events(Vec<Event>),
    /// Nothing more comes: it has all that happened until now.
    End,
}

/// A recording that has begun.
#[derive(Debug)]
pub(in crate::serve) struct Opened {
    /// What to end it by.
    pub(in crate::serve) number: u64,
    /// What comes. If that ends without [`Message::End`], something is missing.
    pub(in crate::serve) messages: Receiver<Message>,
    /// The state at its beginning.
    pub(in crate::serve) ledger: Ledger,
    /// What else it must know: facts, each with its process.
    pub(in crate::serve) facts: Vec<(u32, Fact)>,
}

/// All streams.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: Vec<Stream>,
    next: u64,
    /// Facts about the recorder and about libraries.
    facts: Vec<(u32, Fact)>,
}

#[derive(Debug)]
struct Stream {
    number: u64,
    chunk: Vec<Event>,
    messages: SyncSender<Message>,
}

impl Streams {
    /// Keeps a fact that each recording begins with.
    pub(super) fn learn(&mut self, pid: u32, fact: Fact) {
        if self.facts.len() < MODULES {
            self.facts.push((pid, fact));
        }
    }

    /// Another session begins.
    pub(super) fn begin(&mut self) {
        self.end_all();
        self.facts.clear();
    }

    pub(super) fn open(&mut self, ledger: Ledger, names: Vec<(u32, Fact)>) -> Opened {
        let (sender, messages) = sync_channel(QUEUE);
        let number = self.next;
        self.next += 1;
        self.open.push(Stream {
            number,
            chunk: Vec::with_capacity(CHUNK),
            messages: sender,
        });
        let mut facts = self.facts.clone();
        facts.extend(names);
        Opened {
            number,
            messages,
            ledger,
            facts,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, event: &Event) {
        if !self.open.is_empty() {
            self.open.retain_mut(|stream| stream.push(event));
        }
    }

    /// Hands over what there is.
    pub(super) fn flush(&mut self) {
        self.open.retain_mut(Stream::hand_over);
    }

    pub(super) fn end(&mut self, number: u64) {
        let ended = self.open.extract_if(.., |stream| stream.number == number);
        ended.for_each(Stream::end);
    }

    pub(super) fn end_all(&mut self) {
        self.open.drain(..).for_each(Stream::end);
    }
}

impl Stream {
    /// False where the stream is over: its reader has gone, or is too slow.
    fn push(&mut self, event: &Event) -> bool {
        let is_end = event.kind == Kind::Fact
            && event.text.as_deref().and_then(Fact::parse) == Some(Fact::End);
        if is_end {
            // A stream ends with a row of its own.
            return true;
        }
        self.chunk.push(event.clone());
        self.chunk.len() < CHUNK || self.hand_over()
    }

    fn hand_over(&mut self) -> bool {
        if self.chunk.is_empty() {
            return true;
        }
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK));
        match self.messages.try_send(Message::Events(chunk)) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                tracing::warn!("a streamed recording is cut: its reader is too slow");
                false
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }

    fn end(mut self) {
        if self.hand_over() {
            // With a full queue, it is cut.
            let _ = self.messages.try_send(Message::End);
        }
    }
}
