//! The Trace Event Format: Chrome's and, beside it, `torch.profiler`'s.
//!
//! Times are microseconds relative to a base, with three decimals made of whole nanoseconds: a
//! float would lose them. The base is the one that Kineto, the library under `torch.profiler`, has
//! at that time, so that events of both fit together as they are.

use std::fmt;
use std::io::{self, Write};

use rustc_hash::{FxHashMap, FxHashSet};
use trace::fact::Clock;

use super::columns::{COLUMNS, SHOWN_OTHERWISE};
use super::json::Object;
use super::lanes::Lanes;
use super::{Names, Row, Sink};

/// Kineto rounds its base down to such intervals, ns: three months of 2,629,746 s (libkineto,
/// `ChromeTraceBaseTime`), the most that a double can count in ns.
const BASE_INTERVAL: u64 = 7_889_238 * 1_000_000_000;

/// What ids of processes and threads are raised by: another trace may have the same ids for other
/// things, or for the same ones, whose slices would then overlap.
const IDS: u64 = 1_000_000_000;

/// What the id of a thread is raised by for each further lane: above the highest thread id of
/// Linux (`PID_MAX_LIMIT`, 2^22).
const LANE: u64 = 10_000_000;

/// Writes Trace Event JSON.
#[derive(Debug)]
pub struct Chrome<W> {
    output: W,
    base: Option<u64>,
    origin: Option<Origin>,
    tracks: FxHashMap<(u32, u32), Lanes>,
    /// The titles by which processes were named last; `None` for none.
    processes: FxHashMap<u32, Option<String>>,
    /// Threads that were named, each as process, thread and lane.
    threads: FxHashSet<(u32, u32, usize)>,
    line: Vec<u8>,
    bytes: u64,
}

/// How times of the output follow from those of the recording.
#[derive(Clone, Copy, Debug)]
struct Origin {
    /// What is time 0, ns since 1970; `None` where the recording does not tell the time of day:
    /// then it is that of its first row.
    base: Option<u64>,
    /// What is added to `CLOCK_MONOTONIC` to get times relative to it, ns.
    shift: i128,
    anchor: Option<Clock>,
}

impl Origin {
    fn new(moment: u64, names: &Names, base: Option<u64>) -> Self {
        let Some(anchor) = names.first_clock(moment).copied() else {
            return Self {
                base: None,
                shift: -i128::from(moment),
                anchor: None,
            };
        };
        let distance = i128::from(anchor.realtime) - i128::from(anchor.monotonic);
        let base = base.unwrap_or(anchor.realtime / BASE_INTERVAL * BASE_INTERVAL);
        Self {
            base: Some(base),
            shift: distance - i128::from(base),
            anchor: Some(anchor),
        }
    }

    fn at(&self, moment: u64) -> Microseconds {
        Microseconds(i128::from(moment) + self.shift)
    }
}

/// A number of ns as decimal microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Microseconds(i128);

impl fmt::Display for Microseconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(formatter, "{sign}{}.{:03}", ns / 1000, ns % 1000)
    }
}

impl<W: Write> Chrome<W> {
    /// To `output`, in small pieces. `base`: what is time 0, ns since 1970, in place of Kineto's.
    pub fn new(output: W, base: Option<u64>) -> Self {
        Self {
            output,
            base,
            origin: None,
            tracks: FxHashMap::default(),
            processes: FxHashMap::default(),
            threads: FxHashSet::default(),
            line: Vec::new(),
            bytes: 0,
        }
    }

    /// Writes one element of the list of events.
    fn event(&mut self, build: impl FnOnce(&mut Object<'_>)) -> io::Result<()> {
        self.line.clear();
        let start: &[u8] = if self.bytes == 0 {
            b"{\"traceEvents\":[\n"
        } else {
            b",\n"
        };
        self.line.extend_from_slice(start);
        let mut object = Object::open(&mut self.line);
        build(&mut object);
        object.close();
        self.write_line()
    }

    fn write_line(&mut self) -> io::Result<()> {
        self.bytes += self.line.len() as u64;
        self.output.write_all(&self.line)
    }

    /// Names a process, or a thread of it.
    fn name(&mut self, pid: u64, tid: Option<u64>, name: &str) -> io::Result<()> {
        self.event(|event| {
            event.text("ph", "M");
            let what = if tid.is_some() {
                "thread_name"
            } else {
                "process_name"
            };
            event.text("name", what);
            event.plain("pid", pid);
            event.plain("tid", tid.unwrap_or(0));
            let mut arguments = event.object("args");
            arguments.text("name", name);
            arguments.close();
        })
    }

    /// Process and thread id of the track that the row goes to, named.
    fn track(&mut self, row: &Row<'_>, lane: usize) -> io::Result<(u64, u64)> {
        let (pid, tid) = row.track();
        let shown_pid = IDS + u64::from(pid);
        let shown_tid = IDS + u64::from(tid) + LANE * lane as u64;
        let title = row.process().map(|process| process.title.as_str());
        if self.processes.get(&pid).map(Option::as_deref) != Some(title) {
            self.processes.insert(pid, title.map(str::to_owned));
            self.name(
                shown_pid,
                None,
                &format!("{} (cudasnoop)", row.process_name()),
            )?;
        }
        if self.threads.insert((pid, tid, lane)) {
            self.name(shown_pid, Some(shown_tid), &row.track_name(lane))?;
        }
        Ok((shown_pid, shown_tid))
    }

    fn counter(
        &mut self,
        pid: u64,
        at: Microseconds,
        device: Option<i32>,
        values: &[(&str, u64)],
        what: &str,
    ) -> io::Result<()> {
        let device = device.map_or_else(|| "unknown".to_owned(), |device| device.to_string());
        self.event(|event| {
            event.text("ph", "C");
            event.text("name", &format!("{what}, device {device}"));
            event.plain("pid", pid);
            event.plain("ts", at);
            let mut arguments = event.object("args");
            for (name, value) in values {
                arguments.plain(name, value);
            }
            arguments.close();
        })
    }
}

impl<W: Write> Sink for Chrome<W> {
    fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        let origin = *self
            .origin
            .get_or_insert_with(|| Origin::new(row.moment(), row.names, self.base));
        let lanes = self.tracks.entry(row.track()).or_default();
        let span = row.span();
        let placed = span.and_then(|(start, end)| lanes.place(start, end));
        let (pid, tid) = self.track(row, placed.unwrap_or(0))?;
        self.event(|event| {
            if let Some((start, end)) = span.filter(|_| placed.is_some()) {
                event.text("ph", "X");
                event.plain("ts", origin.at(start));
                event.plain("dur", Microseconds(i128::from(end - start)));
            } else {
                event.text("ph", "i");
                event.text("s", "t");
                event.plain("ts", origin.at(row.moment()));
            }
            event.text("name", &row.title());
            event.text("cat", row.category());
            event.plain("pid", pid);
            event.plain("tid", tid);
            let mut arguments = event.object("args");
            for column in COLUMNS {
                if !SHOWN_OTHERWISE.contains(&column.name)
                    && let Some(value) = (column.of)(row)
                {
                    arguments.value(column.name, value);
                }
            }
            arguments.close();
        })?;
        let at = origin.at(span.map_or(row.moment(), |(_, end)| end));
        for change in row.changes {
            self.counter(
                pid,
                at,
                change.device,
                &[("bytes", change.bytes)],
                "live bytes",
            )?;
        }
        if let Some((allocated, reserved)) = row.torch() {
            let device = row.batch.device().get(row.index);
            let values = [("allocated", allocated), ("reserved", reserved)];
            self.counter(pid, at, device, &values, "PyTorch bytes")?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, names: &Names) -> io::Result<u64> {
        self.line.clear();
        if self.bytes == 0 {
            self.line.extend_from_slice(b"{\"traceEvents\":[");
        }
        self.line
            .extend_from_slice(b"\n],\"displayTimeUnit\":\"ns\"");
        let origin = self.origin;
        if let Some(base) = origin.and_then(|origin| origin.base) {
            // Memory takes all.
            let _ = write!(self.line, ",\"baseTimeNanoseconds\":{base}");
        }
        self.line.extend_from_slice(b",\"otherData\":");
        let mut other = Object::open(&mut self.line);
        other.text("cudasnoop", env!("CARGO_PKG_VERSION"));
        if let Some(settings) = names.settings() {
            other.text("host", &settings.host);
        }
        if let Some(anchor) = origin.and_then(|origin| origin.anchor) {
            // Strings: they have more than 53 bits.
            other.text("monotonic_ns", &anchor.monotonic.to_string());
            other.text("realtime_ns", &anchor.realtime.to_string());
        }
        other.close();
        self.line.extend_from_slice(b"}\n");
        self.write_line()?;
        self.output.flush()?;
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_exact() {
        let cases = [
            (0, "0.000"),
            (1, "0.001"),
            (-1, "-0.001"),
            (1_234_567, "1234.567"),
            (7_889_237_999_999_999, "7889237999999.999"),
        ];
        for (ns, text) in cases {
            assert_eq!(Microseconds(ns).to_string(), text);
        }
    }

    #[test]
    fn all_times_within_the_interval_of_a_base_survive_a_double() {
        for ns in [0, 1, 1_234_567_890_123_456, i128::from(BASE_INTERVAL) - 1] {
            let read: f64 = Microseconds(ns).to_string().parse().expect("a number");
            #[expect(clippy::cast_possible_truncation, reason = "below 2^53")]
            let back = (read * 1000.0).round() as i128;
            assert_eq!(back, ns);
        }
    }
}
