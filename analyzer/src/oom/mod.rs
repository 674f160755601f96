//! Out of memory, and why: PyTorch's messages in a log, judged by arithmetic, with the help of
//! a recording and a snapshot of the same run where there are any.
//!
//! [`Collector`] takes lines, a recording's events and a snapshot, and makes a [`Report`];
//! [`write_text`] shows it to a person.

mod advice;
mod amount;
mod facts;
mod judge;
mod lines;
mod message;
mod recorded;
mod report;
mod snapshotted;
mod text;
mod verdict;

use trace::Event;

use crate::snapshot::Snapshot;
use amount::Amount;
use facts::Facts;
use lines::{Assembler, Raw};
use message::Message;

pub use advice::{NextStep, Setting};
pub use report::{OtherProcess, OutOfMemory, Report, SCHEMA};
pub use text::write_text;
pub use verdict::{Cause, Confidence, Verdict};

/// The most different messages that are kept.
const MESSAGES: usize = 100_000;

/// A message, where it stands, and how often.
struct Found {
    input: Option<String>,
    raw: Raw,
    message: Message,
    repeats: u64,
}

/// Takes logs, a recording and a snapshot.
#[derive(Default)]
pub struct Collector {
    input: Option<String>,
    assembler: Assembler,
    found: Vec<Found>,
    recording: Option<recorded::Collector>,
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Collector").finish_non_exhaustive()
    }
}

impl Collector {
    /// The lines that follow are of this log.
    pub fn log(&mut self, name: &str) {
        self.end_log();
        self.input = Some(name.to_owned());
    }

    /// Takes in the next line of a log.
    pub fn line(&mut self, line: &str) {
        let Self {
            input,
            assembler,
            found,
            recording: _,
        } = self;
        assembler.line(line, |raw| keep(found, input.as_ref(), raw));
    }

    fn end_log(&mut self) {
        let mut assembler = std::mem::take(&mut self.assembler);
        let Self { input, found, .. } = self;
        assembler.finish(|raw| keep(found, input.as_ref(), raw));
    }

    /// Takes in the next event of a recording.
    pub fn event(&mut self, event: &Event) {
        self.recording.get_or_insert_default().push(event);
    }

    /// The report.
    pub fn finish(mut self, snapshot: Option<&Snapshot>) -> Report {
        self.end_log();
        let mut recorded: Vec<Option<recorded::Recorded>> = self
            .recording
            .map(recorded::Collector::finish)
            .unwrap_or_default()
            .into_iter()
            .map(Some)
            .collect();
        let has_logs = self.input.is_some();
        let mut messages = Vec::new();
        for found in &self.found {
            let mut facts = Facts::of_message(&found.message);
            let mut sources = vec!["message"];
            let device = found.message.device;
            let place = recorded.iter().position(|recorded| {
                recorded
                    .as_ref()
                    .is_some_and(|recorded| recorded.is_of(device, &facts))
            });
            let recorded = place.and_then(|place| recorded[place].take());
            if let Some(recorded) = &recorded {
                recorded.add_to(&mut facts);
                sources.push("recording");
            }
            if let Some(snapshot) = snapshot
                && snapshotted::add(snapshot, device, &mut facts)
            {
                sources.push("snapshot");
            }
            messages.push(OutOfMemory {
                input: found.input.clone(),
                line: Some(found.raw.line),
                writer: Some(found.raw.writer.clone()).filter(|writer| !writer.is_empty()),
                repeats: found.repeats,
                pid: recorded.as_ref().map(|recorded| recorded.pid),
                at_ns: recorded.as_ref().map(recorded::Recorded::at_ns),
                ..out_of_memory(device, &facts, sources)
            });
        }
        if !has_logs {
            let rest: Vec<recorded::Recorded> = recorded.into_iter().flatten().collect();
            let had_recording = !rest.is_empty();
            let rest = rest.iter().map(|recorded| alone(recorded, snapshot));
            messages.extend(rest);
            if !had_recording && let Some(snapshot) = snapshot {
                for (device, mut facts) in snapshotted::alone(snapshot) {
                    snapshotted::add(snapshot, Some(device), &mut facts);
                    messages.push(out_of_memory(Some(device), &facts, vec!["snapshot"]));
                }
            }
        }
        Report {
            schema: SCHEMA,
            messages,
        }
    }
}

/// The times that memory ran out in a process, judged by what a recording alone tells.
pub(crate) fn recorded_in(process: &ledger::Process) -> Vec<OutOfMemory> {
    let recorded = recorded::of_process(process);
    recorded
        .iter()
        .map(|recorded| alone(recorded, None))
        .collect()
}

/// What a recording has, and no message tells.
fn alone(recorded: &recorded::Recorded, snapshot: Option<&Snapshot>) -> OutOfMemory {
    let mut facts = Facts::default();
    recorded.add_to(&mut facts);
    let mut sources = vec!["recording"];
    let device = u32::try_from(recorded.device).ok();
    if let Some(snapshot) = snapshot
        && snapshotted::add(snapshot, device, &mut facts)
    {
        sources.push("snapshot");
    }
    OutOfMemory {
        pid: Some(recorded.pid),
        at_ns: Some(recorded.at_ns()),
        ..out_of_memory(device, &facts, sources)
    }
}

/// Keeps a message, or counts it where the log has it already.
fn keep(found: &mut Vec<Found>, input: Option<&String>, raw: Raw) {
    let message = message::parse(&raw.text);
    let known = found.iter_mut().rev().take(64).find(|known| {
        known.message == message
            && known.raw.writer == raw.writer
            && known.input.as_ref() == input
            && message.asked.is_some()
    });
    if let Some(known) = known {
        known.repeats += 1;
    } else if found.len() < MESSAGES {
        found.push(Found {
            input: input.cloned(),
            raw,
            message,
            repeats: 1,
        });
    }
}

fn out_of_memory(device: Option<u32>, facts: &Facts, sources: Vec<&'static str>) -> OutOfMemory {
    let judgement = judge::judge(facts);
    let bytes = |amount: Option<Amount>| amount.map(|amount| amount.bytes);
    let (this_process, reserved) = (bytes(facts.this_process), bytes(facts.reserved));
    OutOfMemory {
        verdict: judgement.verdict,
        confidence: judgement.confidence,
        because: judgement.because,
        next_step: advice::next_step(judgement.verdict, facts),
        sources,
        input: None,
        line: None,
        writer: None,
        repeats: 1,
        pid: None,
        at_ns: None,
        device,
        asked: bytes(facts.asked),
        request: facts.request,
        short_by: judgement.short_by,
        would_have_fitted: judgement.would_have_fitted,
        rounding: facts.rounding(),
        total: bytes(facts.total),
        free: bytes(facts.free),
        allocated: bytes(facts.allocated),
        reserved,
        unallocated: bytes(facts.unallocated),
        allowed: bytes(facts.allowed),
        private_pools: bytes(facts.private_pools),
        this_process,
        non_pytorch: this_process
            .zip(reserved)
            .and_then(|(all, reserved)| all.checked_sub(reserved)),
        other_processes: facts
            .others
            .iter()
            .map(|(pid, amount)| OtherProcess {
                pid: *pid,
                bytes: bytes(*amount),
            })
            .collect(),
        free_in_pool: facts.free_in_pool,
        largest_free: facts.largest_free,
        pending_free: facts.pending.map(|(pending, _)| pending),
        private_unused: facts.private_unused,
        retry_worked: facts.retry_worked,
        causes: judgement.causes,
    }
}
