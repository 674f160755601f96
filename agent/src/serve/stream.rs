//! A recording that is streamed as it is made.

use std::{
    io::{self, Write},
    sync::{Arc, mpsc::RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use trace::{Event, Fact, WriteError, Writer, fact};

use super::live::{Live, Message, Opened};
use crate::session::{clock_event, fact_event, monotonic};

/// How often what there is is sent.
const FLUSH: Duration = Duration::from_secs(1);
/// Pieces that may wait for the client.
const QUEUE: usize = 8;

/// What the client is sent.
pub(super) type Piece = io::Result<Bytes>;

/// Begins a recording of `length`. `permit` is given back at its end.
pub(super) fn start(
    live: &Arc<Live>,
    length: Duration,
    permit: OwnedSemaphorePermit,
) -> io::Result<mpsc::Receiver<Piece>> {
    let (sender, pieces) = mpsc::channel(QUEUE);
    let live = Arc::clone(live);
    thread::Builder::new()
        .name("stream".to_owned())
        .spawn(move || {
            let _permit = permit;
            let opened = live.record();
            let number = opened.number;
            if let Err(error) = record(&live, opened, length, &sender) {
                tracing::debug!("a streamed recording has ended early: {error}");
                // The client must see that it is not whole.
                let _ = sender.blocking_send(Err(io::Error::other(error)));
            }
            live.end_recording(number);
        })?;
    Ok(pieces)
}

fn record(
    live: &Live,
    opened: Opened,
    length: Duration,
    sender: &mpsc::Sender<Piece>,
) -> Result<(), WriteError> {
    let Opened {
        number,
        messages,
        ledger,
        facts,
    } = opened;
    let lost_before = live.lost();
    let until = Instant::now() + length;
    let mut writer = Writer::new(Pieces(sender.clone()))?;
    for event in preamble(&ledger, facts) {
        writer.push(&event)?;
    }
    drop(ledger);
    writer.flush()?;
    let mut flushed = Instant::now();
    let mut is_ending = false;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() && !is_ending {
            is_ending = true;
            live.end_recording(number);
        }
        let wait = if is_ending { FLUSH } else { left.min(FLUSH) };
        match messages.recv_timeout(wait) {
            Ok(Message::Events(events)) => {
                for event in &events {
                    writer.push(event)?;
                }
            }
            Ok(Message::End) => break,
            Err(RecvTimeoutError::Timeout) => {}
            // Cut: it has no end, so that nobody takes it for whole.
            Err(RecvTimeoutError::Disconnected) => {
                writer.finish()?;
                return Ok(());
            }
        }
        if flushed.elapsed() >= FLUSH {
            flushed = Instant::now();
            writer.flush()?;
        }
    }
    let lost = live.lost().saturating_sub(lost_before);
    if lost > 0 {
        let gap = fact::Gap {
            pid: 0,
            reason: format!("{lost} records were lost, over all processes"),
            duration: Some(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)),
        };
        writer.push(&fact_event(0, 0, monotonic(), &Fact::Gap(gap)))?;
    }
    writer.push(&clock_event())?;
    writer.push(&fact_event(0, 0, monotonic(), &Fact::End))?;
    writer.finish()?;
    Ok(())
}

/// What a recording is told first, for it begins in the middle: how the recorder is set, which
/// libraries, processes, devices, kernels and callers there are, and all memory.
fn preamble(ledger: &ledger::Ledger, facts: Vec<(u32, Fact)>) -> impl Iterator<Item = Event> {
    let now = monotonic();
    let processes: Vec<(u32, Fact)> = ledger
        .live()
        .filter_map(|process| Some((process.key().pid, process.info()?)))
        .map(|(pid, info)| (pid, Fact::Process(info.clone())))
        .collect();
    let checkpoint = ledger.checkpoint().into_iter().map(|part| (0, part));
    let (settings, names): (Vec<_>, Vec<_>) = facts
        .into_iter()
        .partition(|(_, fact)| matches!(fact, Fact::Settings(_)));
    // The checkpoint replaces what is known of memory, and so comes before the processes.
    let facts = settings.into_iter().chain(checkpoint);
    let samples: Vec<_> = ledger.samples().collect();
    let facts = facts.chain(processes).chain(samples).chain(names);
    std::iter::once(clock_event())
        .chain(facts.map(move |(pid, fact)| fact_event(pid, pid, now, &fact)))
}

/// Sends what is written to the client, and waits until there is room.
struct Pieces(mpsc::Sender<Piece>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Ok(Bytes::copy_from_slice(bytes));
        self.0
            .blocking_send(piece)
            .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the client has gone"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
