//! What a recording costs to write and to read, in CPU time of one thread:
//!
//! ```text
//! cargo run --release -p trace --example throughput
//! ```
//!
//! The events are made up ([`program`]): 70 % of the calls launch one of 20 kernels, 10 %
//! allocate and free, 20 % copy and wait. Once as programs are, where a loop makes the same calls
//! again and again; once in random order, the worst case.
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

mod program;

use std::hint::black_box;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use program::{Mix, Order, Program};
use trace::{BatchBuilder, BatchWriter, Event, EventBatch, Fact, Kind, Reader};

const EVENTS: usize = 1_000_000;

fn main() {
    for (name, order) in [("loop", Order::Loop), ("random", Order::Random)] {
        let recording = write(name, order);
        read(name, &recording, "10 columns", COLUMNS, touch_columns);
        read(name, &recording, "whole events", &[], touch_events);
    }
}

/// Writes a recording, several times, and prints the cost of the cheapest.
fn write(name: &str, order: Order) -> Vec<u8> {
    let runs = (0..5).map(|_| write_once(order));
    let (push, write, recording) = runs
        .min_by_key(|(push, write, _)| *push + *write)
        .expect("several runs");
    println!(
        "{name}: push {:.1} ns, write {:.1} ns, {:.2} bytes an event",
        push.as_nanos() as f64 / EVENTS as f64,
        write.as_nanos() as f64 / EVENTS as f64,
        recording.len() as f64 / EVENTS as f64,
    );
    recording
}

fn write_once(order: Order) -> (Duration, Duration, Vec<u8>) {
    let mut program = Program::new(order, Mix::PLAIN);
    let (mut push, mut write) = (Duration::ZERO, Duration::ZERO);
    let mut builder = BatchBuilder::new();
    let mut writer =
        BatchWriter::new(Vec::with_capacity(EVENTS * 16)).expect("memory takes everything");
    // Few at a time: a recorder's events come from the cache as well.
    for _ in 0..EVENTS / 1_000 {
        let events: Vec<Event> = (0..1_000).map(|_| program.next_event()).collect();
        let mut full = None;
        push += cpu_time_of(|| {
            for event in &events {
                if let Some(batch) = builder.push(event).full {
                    full = Some(batch);
                }
            }
        });
        if let Some(batch) = full {
            write += cpu_time_of(|| writer.write(&batch).expect("memory takes everything"));
        }
    }
    let text = Some(Fact::End.to_text());
    builder.push(&Event {
        kind: Kind::Fact,
        text,
        ..Event::default()
    });
    let last = builder.flush().expect("the fact is in it");
    writer.write(&last).expect("memory takes everything");
    (
        push,
        write,
        writer.finish().expect("memory takes everything"),
    )
}

/// Reads a recording, several times, and prints the speed of the fastest.
fn read(name: &str, recording: &[u8], what: &str, columns: &[&str], touch: fn(&EventBatch) -> u64) {
    let time = (0..5)
        .map(|_| {
            cpu_time_of(|| {
                let mut reader = Reader::new(recording).expect("a recording");
                if !columns.is_empty() {
                    reader = reader.select(columns);
                }
                for batch in reader {
                    black_box(touch(&batch.expect("memory can be read")));
                }
            })
        })
        .min()
        .expect("several runs");
    println!(
        "{name}: read {what} {:.1} M/s",
        EVENTS as f64 / time.as_secs_f64() / 1e6
    );
}

/// What [`touch_columns`] reads, besides `ts`, `pid`, `tid` and `flags`.
const COLUMNS: &[&str] = &["duration", "api", "family", "address", "size", "kernel"];

fn touch_columns(batch: &EventBatch) -> u64 {
    (0..batch.len()).fold(0, |sum, row| {
        let number = |value: Option<u64>| value.unwrap_or_default();
        sum.wrapping_add(batch.ts()[row])
            .wrapping_add(number(batch.duration().get(row)))
            .wrapping_add(u64::from(batch.pid()[row]))
            .wrapping_add(u64::from(batch.tid()[row]))
            .wrapping_add(number(batch.api().get(row).map(|api| api.0.into())))
            .wrapping_add(number(batch.family().get(row).map(|family| family as u64)))
            .wrapping_add(number(batch.address().get(row)))
            .wrapping_add(number(batch.size().get(row).map(i64::cast_unsigned)))
            .wrapping_add(number(batch.kernel().get(row).map(u64::from)))
            .wrapping_add(u64::from(batch.flags()[row]))
    })
}

fn touch_events(batch: &EventBatch) -> u64 {
    batch
        .iter()
        .fold(0, |sum, event| sum.wrapping_add(black_box(event).timestamp))
}

/// CPU time of this thread: what others do on the machine counts little.
fn cpu_time_of(work: impl FnOnce()) -> Duration {
    let now = || -> Duration {
        clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
            .expect("every unix has it")
            .into()
    };
    let start = now();
    work();
    now().saturating_sub(start)
}
