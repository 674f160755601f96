//! Perfetto's own trace format.
//!
//! All times are `CLOCK_MONOTONIC`, which is made the clock of the trace, so that none is
//! converted; snapshots relate it to the time of day. Perfetto sorts by time, and what has the
//! same time stays in the order of the file: the lanes see to it that slices nest all the same.

mod interned;
mod proto;

use std::io::{self, Write};

use prost::Message;
use rustc_hash::FxHashMap;
use trace::Fact;

use self::interned::Interned;
use self::proto::{
    BOOTTIME, Clock, ClockSnapshot, CounterDescriptor, DebugAnnotation, EventType,
    INCREMENTAL_STATE_CLEARED, MONOTONIC, NEEDS_INCREMENTAL_STATE, ProcessDescriptor, REALTIME,
    ThreadDescriptor, TracePacket, TracePacketDefaults, TrackDescriptor, TrackEvent, Unit,
};
use super::columns::{COLUMNS, SHOWN_OTHERWISE, Value};
use super::lanes::Lanes;
use super::row::FACTS;
use super::{Names, Row, Sink};

/// All packets are of one sequence.
const SEQUENCE: u32 = 1;

/// The tag of `Trace.packet`: field 1, with a length.
const PACKET: u8 = 1 << 3 | 2;

/// Writes a Perfetto trace.
#[derive(Debug)]
pub struct Perfetto<W> {
    output: W,
    has_begun: bool,
    interned: Interned,
    lanes: FxHashMap<(u32, u32), Lanes>,
    /// The ids of tracks that were described.
    tracks: FxHashMap<Track, u64>,
    /// The titles by which processes were described last; `None` for none.
    titles: FxHashMap<u32, Option<String>>,
    buffer: Vec<u8>,
    bytes: u64,
}

/// A track of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Track {
    Process(u32),
    Thread {
        pid: u32,
        tid: u32,
        lane: usize,
    },
    Counter {
        pid: u32,
        device: Option<i32>,
        what: &'static str,
    },
}

impl<W: Write> Perfetto<W> {
    /// To `output`, in small pieces.
    pub fn new(output: W) -> Self {
        Self {
            output,
            has_begun: false,
            interned: Interned::default(),
            lanes: FxHashMap::default(),
            tracks: FxHashMap::default(),
            titles: FxHashMap::default(),
            buffer: Vec::new(),
            bytes: 0,
        }
    }

    fn packet(&mut self, packet: &TracePacket) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.push(PACKET);
        packet
            .encode_length_delimited(&mut self.buffer)
            .map_err(io::Error::other)?;
        self.bytes += self.buffer.len() as u64;
        self.output.write_all(&self.buffer)
    }

    /// Says which clock the times are of. Comes first: a time before it would be of another one.
    fn begin(&mut self, row: &Row<'_>) -> io::Result<()> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        let clocks = match row.names.first_clock(row.moment()) {
            Some(clock) => clocks(clock),
            None => vec![reading(MONOTONIC, row.moment())],
        };
        self.packet(&TracePacket {
            clock_snapshot: Some(ClockSnapshot {
                clocks,
                primary_trace_clock: Some(MONOTONIC),
            }),
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(INCREMENTAL_STATE_CLEARED),
            defaults: Some(TracePacketDefaults {
                timestamp_clock_id: Some(MONOTONIC),
            }),
            ..TracePacket::default()
        })
    }

    /// The id of a track, described with what `descriptor` makes if it is new.
    fn track(
        &mut self,
        track: Track,
        descriptor: impl FnOnce() -> TrackDescriptor,
    ) -> io::Result<u64> {
        if let Some(uuid) = self.tracks.get(&track) {
            return Ok(*uuid);
        }
        let uuid = self.tracks.len() as u64 + 1;
        self.tracks.insert(track, uuid);
        self.describe(TrackDescriptor {
            uuid: Some(uuid),
            ..descriptor()
        })?;
        Ok(uuid)
    }

    fn describe(&mut self, descriptor: TrackDescriptor) -> io::Result<()> {
        self.packet(&TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_descriptor: Some(descriptor),
            ..TracePacket::default()
        })
    }

    /// The process's track. Its title may change.
    fn process_track(&mut self, row: &Row<'_>) -> io::Result<u64> {
        let pid = row.pid();
        let process = row.process();
        let descriptor = || TrackDescriptor {
            // What is about the recording as a whole is about no process.
            name: (pid == 0).then(|| row.process_name()),
            process: (pid != 0).then(|| ProcessDescriptor {
                pid: Some(pid.cast_signed()),
                cmdline: process
                    .map(|process| process.command.clone())
                    .into_iter()
                    .collect(),
                process_name: process.map(|process| process.title.clone()),
            }),
            ..TrackDescriptor::default()
        };
        let uuid = self.track(Track::Process(pid), descriptor)?;
        let title = process.map(|process| process.title.as_str());
        let known = self.titles.get(&pid).map(Option::as_deref);
        if known != Some(title) {
            if known.is_some() {
                self.describe(TrackDescriptor {
                    uuid: Some(uuid),
                    ..descriptor()
                })?;
            }
            self.titles.insert(pid, title.map(str::to_owned));
        }
        Ok(uuid)
    }

    /// The track of the row's thread, or of the facts about its process.
    fn thread_track(&mut self, row: &Row<'_>, process: u64, lane: usize) -> io::Result<u64> {
        let (pid, tid) = row.track();
        let thread = |lane| Track::Thread { pid, tid, lane };
        let first = self.track(thread(0), || TrackDescriptor {
            name: (tid == FACTS).then(|| row.track_name(0)),
            parent_uuid: Some(process),
            thread: (tid != FACTS).then(|| ThreadDescriptor {
                pid: Some(pid.cast_signed()),
                tid: Some(tid.into()),
            }),
            ..TrackDescriptor::default()
        })?;
        if lane == 0 {
            return Ok(first);
        }
        self.track(thread(lane), || TrackDescriptor {
            name: Some(row.track_name(lane)),
            parent_uuid: Some(process),
            ..TrackDescriptor::default()
        })
    }

    fn event(&mut self, timestamp: u64, event: TrackEvent) -> io::Result<()> {
        let interned_data = self.interned.take_new();
        self.packet(&TracePacket {
            timestamp: Some(timestamp),
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(NEEDS_INCREMENTAL_STATE),
            track_event: Some(event),
            interned_data,
            ..TracePacket::default()
        })
    }

    fn counter(
        &mut self,
        (process, at): (u64, u64),
        row: &Row<'_>,
        device: Option<i32>,
        (what, bytes): (&'static str, u64),
    ) -> io::Result<()> {
        let pid = row.pid();
        let track = Track::Counter { pid, device, what };
        let track = self.track(track, || TrackDescriptor {
            name: Some(match device {
                Some(device) => format!("{what}, device {device}"),
                None => format!("{what}, device unknown"),
            }),
            parent_uuid: Some(process),
            counter: Some(CounterDescriptor {
                unit: Some(Unit::SizeBytes.into()),
            }),
            ..TrackDescriptor::default()
        })?;
        self.event(
            at,
            TrackEvent {
                r#type: Some(EventType::Counter.into()),
                track_uuid: Some(track),
                counter_value: Some(i64::try_from(bytes).unwrap_or(i64::MAX)),
                ..TrackEvent::default()
            },
        )
    }

    fn annotations(&mut self, row: &Row<'_>) -> Vec<DebugAnnotation> {
        let shown = |name: &&str| SHOWN_OTHERWISE.contains(name);
        let mut annotations = Vec::new();
        for column in COLUMNS.iter().filter(|column| !shown(&column.name)) {
            let Some(value) = (column.of)(row) else {
                continue;
            };
            let mut annotation = DebugAnnotation {
                name_iid: Some(self.interned.annotation(column.name)),
                ..DebugAnnotation::default()
            };
            match value {
                Value::Small(number) => annotation.uint_value = Some(number.into()),
                Value::Number(number) | Value::Time(number) => annotation.uint_value = Some(number),
                Value::Signed(number) => annotation.int_value = Some(number.into()),
                Value::Size(bytes) => annotation.int_value = Some(bytes),
                Value::Address(address) => annotation.pointer_value = Some(address),
                // Each fact is another one; all else comes again.
                Value::Text(text) if column.name == "text" => {
                    annotation.string_value = Some(text.to_owned());
                }
                Value::Text(text) => {
                    annotation.string_value_iid = Some(self.interned.string(text));
                }
            }
            annotations.push(annotation);
        }
        annotations
    }
}

fn reading(clock: u32, time: u64) -> Clock {
    Clock {
        clock_id: Some(clock),
        timestamp: Some(time),
    }
}

fn clocks(clock: &trace::fact::Clock) -> Vec<Clock> {
    let trace::fact::Clock {
        monotonic,
        boottime,
        realtime,
    } = *clock;
    vec![
        reading(MONOTONIC, monotonic),
        reading(BOOTTIME, boottime),
        reading(REALTIME, realtime),
    ]
}

impl<W: Write> Sink for Perfetto<W> {
    fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        self.begin(row)?;
        if let Some(Fact::Clock(clock)) = row.fact {
            self.packet(&TracePacket {
                clock_snapshot: Some(ClockSnapshot {
                    clocks: clocks(clock),
                    primary_trace_clock: Some(MONOTONIC),
                }),
                trusted_packet_sequence_id: Some(SEQUENCE),
                ..TracePacket::default()
            })?;
        }
        let process = self.process_track(row)?;
        let span = row.span();
        let lanes = self.lanes.entry(row.track()).or_default();
        let placed = span.and_then(|(start, end)| lanes.place(start, end));
        let track = self.thread_track(row, process, placed.unwrap_or(0))?;
        let slice = span.filter(|_| placed.is_some());
        let begin = TrackEvent {
            category_iids: vec![self.interned.category(row.category())],
            debug_annotations: self.annotations(row),
            r#type: Some(match slice {
                Some(_) => EventType::SliceBegin.into(),
                None => EventType::Instant.into(),
            }),
            name_iid: Some(self.interned.event(&row.title())),
            track_uuid: Some(track),
            counter_value: None,
        };
        self.event(slice.map_or(row.moment(), |(start, _)| start), begin)?;
        if let Some((_, end)) = slice {
            let end_of_slice = TrackEvent {
                r#type: Some(EventType::SliceEnd.into()),
                track_uuid: Some(track),
                ..TrackEvent::default()
            };
            self.event(end, end_of_slice)?;
        }
        let at = (process, span.map_or(row.moment(), |(_, end)| end));
        for change in row.changes {
            self.counter(at, row, change.device, ("live bytes", change.bytes))?;
        }
        if let Some((allocated, reserved)) = row.torch() {
            let device = row.batch.device().get(row.index);
            self.counter(at, row, device, ("PyTorch allocated bytes", allocated))?;
            self.counter(at, row, device, ("PyTorch reserved bytes", reserved))?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, _: &Names) -> io::Result<u64> {
        self.output.flush()?;
        Ok(self.bytes)
    }
}
