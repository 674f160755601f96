//! What a recording costs to write and to read, in CPU time of one thread:
//!
//! ```text
//! cargo run --release -p trace --example throughput [RECORDING]
//! ```
//!
//! The events are made up: 100,000 calls a second from four threads, of which 70 % launch one
//! of 20 kernels, 10 % allocate and free, 20 % copy and wait. Once as programs are, where a loop
//! makes the same 500 calls again and again, and one call in 50 comes from elsewhere; once in
//! random order, the worst case. With a path, the first recording is left there.
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::hint::black_box;
use std::time::Duration;

use agent_common::{ApiId, flags, launch::Dimensions};
use nix::time::{ClockId, clock_gettime};
use trace::{BatchBuilder, BatchWriter, Event, EventBatch, Fact, Kind, Reader};

const EVENTS: usize = 1_000_000;

fn main() {
    for (name, order) in [("loop", Order::Loop), ("random", Order::Random)] {
        let recording = write(name, order);
        if let (Order::Loop, Some(path)) = (order, std::env::args_os().nth(1)) {
            std::fs::write(path, &recording).expect("the path can be written");
        }
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
    let mut program = Program::new(order);
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

#[derive(Clone, Copy)]
enum Order {
    Loop,
    Random,
}

/// A made-up program.
struct Program {
    order: Order,
    random: Random,
    now: u64,
    /// The calls of the loop.
    calls: Vec<Call>,
    next_call: usize,
    /// Addresses of blocks.
    live: Vec<u64>,
    /// The end of a free that has begun.
    freed: Option<Event>,
}

#[derive(Clone, Copy)]
enum Call {
    Launch { kernel: u32 },
    Malloc { size: i64 },
    Free,
    Copy { size: i64, kind: u8 },
    Wait,
}

impl Program {
    fn new(order: Order) -> Self {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let calls = (0..500).map(|_| Call::random(&mut random)).collect();
        let live = (0..1_000).map(|_| random.address()).collect();
        let now = 86_400_000_000_000;
        Self {
            order,
            random,
            now,
            calls,
            next_call: 0,
            live,
            freed: None,
        }
    }

    fn next_event(&mut self) -> Event {
        if let Some(freed) = self.freed.take() {
            return freed;
        }
        self.now += 5_000 + self.random.below(10_000);
        let is_in_loop = match self.order {
            Order::Loop => self.random.below(50) > 0,
            Order::Random => false,
        };
        let (call, thread) = if is_in_loop {
            self.next_call = (self.next_call + 1) % self.calls.len();
            (self.calls[self.next_call], 0)
        } else {
            (
                Call::random(&mut self.random),
                u32::try_from(self.random.below(4)).expect("small"),
            )
        };
        let event = Event {
            timestamp: self.now,
            pid: 4_242,
            tid: 4_242 + thread * 3,
            device: Some(0),
            ..Event::default()
        };
        self.make(call, event)
    }

    fn make(&mut self, call: Call, event: Event) -> Event {
        let returned = |longest: u64, random: &mut Random| Event {
            duration: Some(1_000 + random.below(longest)),
            result: Some(0),
            flags: flags::RETURNED,
            caller: Some(2),
            ..event.clone()
        };
        match call {
            Call::Launch { kernel } => {
                let is_large = kernel.is_multiple_of(3);
                Event {
                    api: api(if kernel < 15 {
                        "cudaLaunchKernel"
                    } else {
                        "cuLaunchKernelEx"
                    }),
                    kernel: Some(kernel),
                    handle: Some(0x5581_2000_0000 + u64::from(kernel) * 0x1a40),
                    stream: Some(if kernel.is_multiple_of(4) {
                        0x5581_3c00_1230
                    } else {
                        0
                    }),
                    shared_memory: Some(if is_large { 49_152 } else { 0 }),
                    dimensions: Some(Dimensions {
                        grid: [kernel * 32 + 1, if is_large { 8 } else { 1 }, 1],
                        block: [128 << (kernel % 3), 1, 1],
                    }),
                    // PyTorch's own kernels, Triton's, cuBLAS's.
                    caller: Some([0, 0, 0, 0, 3, 4][usize::try_from(kernel % 6).expect("small")]),
                    ..event
                }
            }
            Call::Malloc { size } => {
                let address = self.random.address();
                self.live.push(address);
                Event {
                    api: api("cudaMalloc"),
                    address: Some(address),
                    size: Some(size),
                    ..returned(60_000, &mut self.random)
                }
            }
            Call::Free => {
                let index = self.random.index(self.live.len());
                let address = Some(self.live[index]);
                let freed = returned(60_000, &mut self.random);
                self.freed = Some(Event {
                    api: api("cudaFree"),
                    address,
                    ..freed
                });
                let caller = Some(2);
                Event {
                    api: api("cudaFree"),
                    address,
                    kind: Kind::Begin,
                    caller,
                    ..event
                }
            }
            Call::Copy { size, kind } => Event {
                api: api("cudaMemcpyAsync"),
                address: Some(self.live[self.random.index(64)]),
                source: Some(0x7ffc_1000_0000 + self.random.below(64) * 4_096),
                size: Some(size),
                copy_kind: Some(kind),
                stream: Some(0),
                ..returned(20_000, &mut self.random)
            },
            Call::Wait => Event {
                api: api("cudaStreamSynchronize"),
                stream: Some(0),
                ..returned(1_000_000, &mut self.random)
            },
        }
    }
}

impl Call {
    fn random(random: &mut Random) -> Self {
        match random.below(100) {
            0..70 => Self::Launch {
                kernel: u32::try_from(random.below(20)).expect("small"),
            },
            70..75 => Self::Malloc {
                size: random.size(2 << 20, 64),
            },
            75..80 => Self::Free,
            80..92 => Self::Copy {
                size: random.size(4, 1 << 18),
                kind: if random.below(4) == 0 { 2 } else { 1 },
            },
            _ => Self::Wait,
        }
    }
}

fn api(name: &str) -> Option<ApiId> {
    ApiId::by_name(name)
}

/// Marsaglia's xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("small")
    }

    fn size(&mut self, unit: u64, most: u64) -> i64 {
        (unit * (1 + self.below(most))).cast_signed()
    }

    fn address(&mut self) -> u64 {
        0x7f12_0000_0000 + self.below(1 << 24) * 512
    }
}
