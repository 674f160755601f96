//! Copies that cost more than they need to.

use std::collections::{BTreeMap, BTreeSet};

use ledger::HostMemory;

use super::{Confidence, Evidence, Family, Figures, Finding, Severity};
use crate::host::{Direction, ThreadPace, Timing, Transfers};
use crate::report::Report;
use crate::text::{bytes, count, duration, percent};

/// Fewer copies of one kind are no habit.
const FEWEST: u64 = 16;

/// Fewer bytes are no matter.
const FEWEST_BYTES: u64 = 64 << 20;

/// What is loaded once, of so many bytes, is worth a note.
const LOADED_BYTES: u64 = 1 << 30;

/// So much of a process's time a warning must be worth.
const SHARE_PERCENT: u64 = 5;

/// So many small copies in a row are a storm.
const STORM: u64 = 1_000;

pub(super) fn find(figures: Figures<'_>) -> Vec<Finding> {
    let report = figures.report;
    let pids: BTreeSet<u32> = report
        .host
        .transfers
        .iter()
        .filter_map(|row| row.pid)
        .collect();
    let of_processes = pids.into_iter().flat_map(|pid| {
        [Direction::HostToDevice, Direction::DeviceToHost]
            .into_iter()
            .flat_map(move |direction| {
                let about = About {
                    report,
                    pid,
                    direction,
                };
                [about.pageable(), about.serialized()]
            })
    });
    let storms = report
        .host
        .threads
        .iter()
        .map(|thread| storm(thread, report));
    of_processes.chain(storms).flatten().collect()
}

#[derive(Clone, Copy)]
struct About<'a> {
    report: &'a Report,
    pid: u32,
    direction: Direction,
}

impl About<'_> {
    fn rows(&self) -> impl Iterator<Item = &Transfers> {
        let Self { pid, direction, .. } = *self;
        let rows = self.report.host.transfers.iter();
        rows.filter(move |row| row.pid == Some(pid) && row.direction == direction)
    }

    /// From the process's first launch, copy or wait to its last.
    fn span(&self) -> u64 {
        let threads = self.report.host.threads.iter();
        let threads = threads.filter(|thread| thread.pid == Some(self.pid));
        let (from, to) = threads.fold((u64::MAX, 0), |(from, to), thread| {
            (from.min(thread.from_ns), to.max(thread.to_ns))
        });
        to.saturating_sub(from)
    }

    /// Copies from or to memory that is not pinned.
    fn pageable(&self) -> Option<Finding> {
        let pageable = |row: &&Transfers| row.host == Some(HostMemory::Pageable);
        let [mut copies, mut size, mut time] = [0_u64; 3];
        let [mut all_size, mut all_time] = [0_u64; 2];
        let (mut from, mut to) = (u64::MAX, 0);
        let mut rate = None;
        for row in self.rows().filter(pageable) {
            copies += row.bulk.recurring_copies;
            size = size.saturating_add(row.bulk.recurring_bytes);
            time = time.saturating_add(row.bulk.recurring_ns);
            all_size = all_size.saturating_add(row.bulk.bytes);
            all_time = all_time.saturating_add(row.bulk.total_ns);
            (from, to) = (from.min(row.from_ns), to.max(row.to_ns));
            rate = rate.max(row.bulk.bytes_per_second.map(|rate| rate.p50));
        }
        let share = percent(time, self.span());
        let recurs = copies >= FEWEST && size >= FEWEST_BYTES && share >= SHARE_PERCENT;
        if !recurs && all_size < LOADED_BYTES {
            return None;
        }
        let Self {
            report,
            pid,
            direction,
        } = *self;
        let (size, time) = if recurs {
            (size, time)
        } else {
            (all_size, all_time)
        };
        let pinned = pinned_rate(report, direction);
        let would_take = pinned.and_then(|rate| {
            let ns = u128::from(size) * 1_000_000_000 / u128::from(rate.max(1));
            u64::try_from(ns).ok()
        });
        let saved = would_take.map(|pinned| time.saturating_sub(pinned));
        let mut numbers = BTreeMap::from([
            ("copied_bytes", size.into()),
            ("copying_ns", time.into()),
            ("recurring_copies", copies.into()),
            ("span_ns", self.span().into()),
        ]);
        let rates = [
            ("pageable_bytes_per_second", rate),
            ("pinned_bytes_per_second", pinned),
            ("pinned_would_take_ns", would_take),
            ("saved_ns", saved),
        ];
        for (key, value) in rates {
            if let Some(value) = value {
                numbers.insert(key, value.into());
            }
        }
        let at = |what: String| Evidence {
            pid: Some(pid),
            from_ns: Some(from),
            to_ns: Some(to),
            ..Evidence::new(what)
        };
        let mut evidence = vec![at(format!(
            "{} {} from pageable memory{}: {} of host time{}",
            bytes(size),
            direction.words(),
            if recurs { "" } else { ", once" },
            duration(time),
            rate.map_or_else(String::new, |rate| format!(
                ", {}/s (median of a copy)",
                bytes(rate)
            ))
        ))];
        if direction == Direction::DeviceToHost {
            evidence[0].what = evidence[0].what.replace("from pageable", "into pageable");
        }
        let mut unknowns = Vec::new();
        match (pinned, saved) {
            (Some(pinned), Some(saved)) => evidence.push(Evidence::new(format!(
                "pinned memory reached {}/s in this recording: {} less, and with non_blocking=True the \
                 host goes on meanwhile",
                bytes(pinned),
                duration(saved)
            ))),
            (None, _) | (_, None) => unknowns.push(
                "What pinned memory would reach here: the recording has no copy of it in this \
                 direction whose time is known."
                    .to_owned(),
            ),
        }
        unknowns.push(
            "How long a copy waited for what its stream had to do before: that is in its time."
                .to_owned(),
        );
        let claim = if recurs {
            format!(
                "Process {pid} copies {} {} again and again through pageable memory: its threads \
                 spend {share} % of the time in it.",
                bytes(size),
                direction.words()
            )
        } else {
            format!(
                "Process {pid} copied {} {} through pageable memory, most of it once.",
                bytes(size),
                direction.words()
            )
        };
        Some(Finding {
            id: format!("transfer.pageable:{pid}:{}", direction.name()),
            family: Family::Transfer,
            severity: if recurs {
                Severity::Warning
            } else {
                Severity::Info
            },
            claim,
            numbers,
            confidence: confidence(report),
            evidence,
            unknowns,
            next_step: if recurs {
                "Pin the memory: DataLoader(pin_memory=True), tensor.pin_memory(), or \
                 torch.empty(..., pin_memory=True) once, and copy with non_blocking=True; the driver \
                 then copies without a buffer of its own, and the host does not wait."
            } else {
                "Nothing to do if it is loading. If it comes back, pin the memory."
            }
            .to_owned(),
        })
    }

    /// Copies that the host waits for, though the memory would allow more.
    fn serialized(&self) -> Option<Finding> {
        let Self {
            report,
            pid,
            direction,
        } = *self;
        let [mut copies, mut size, mut time] = [0_u64; 3];
        let (mut from, mut to) = (u64::MAX, 0);
        let pinned = |host| matches!(host, Some(HostMemory::Pinned | HostMemory::Registered));
        for row in self.rows().filter(|row| pinned(row.host)) {
            let (more, more_bytes, ns) = match row.timing {
                Timing::Whole => (
                    row.bulk.recurring_copies,
                    row.bulk.recurring_bytes,
                    row.bulk.recurring_ns,
                ),
                Timing::Submitted => (
                    row.bulk.waited_copies,
                    row.bulk.waited_bytes,
                    row.bulk.waited_ns,
                ),
                Timing::Staged | Timing::Captured | Timing::Unknown => (0, 0, 0),
            };
            copies += more;
            size = size.saturating_add(more_bytes);
            time = time.saturating_add(ns);
            if more > 0 {
                (from, to) = (from.min(row.from_ns), to.max(row.to_ns));
            }
        }
        let share = percent(time, self.span());
        if copies < FEWEST || size < FEWEST_BYTES || share < SHARE_PERCENT * 2 {
            return None;
        }
        // The host may well need what it waits for.
        let is_result = direction == Direction::DeviceToHost;
        Some(Finding {
            id: format!("transfer.serialized:{pid}:{}", direction.name()),
            family: Family::Transfer,
            severity: if is_result {
                Severity::Info
            } else {
                Severity::Warning
            },
            claim: format!(
                "Process {pid} waits for each copy {} from pinned memory: {} copies, {share} % of the \
                 time.",
                direction.words(),
                count(copies)
            )
            .replace(
                "to host from pinned",
                "to host into pinned",
            ),
            numbers: BTreeMap::from([
                ("copies", copies.into()),
                ("copied_bytes", size.into()),
                ("waiting_ns", time.into()),
                ("span_ns", self.span().into()),
            ]),
            confidence: confidence(report),
            evidence: vec![Evidence {
                pid: Some(pid),
                from_ns: Some(from),
                to_ns: Some(to),
                ..Evidence::new(format!(
                    "{} in {}, by synchronous copies or with a wait right after",
                    bytes(size),
                    duration(time)
                ))
            }],
            unknowns: vec![
                "Whether the host needs the bytes at once, and whether there is other work that \
                 could run meanwhile."
                    .to_owned(),
            ],
            next_step: "Copy with non_blocking=True (cudaMemcpyAsync) on a stream of its own, and \
                        let the stream that uses the data wait (Stream.wait_stream): copy and \
                        computation then overlap."
                .to_owned(),
        })
    }
}

/// Many small copies in a row.
fn storm(thread: &ThreadPace, report: &Report) -> Option<Finding> {
    let (pid, tid) = thread.pid.zip(thread.tid)?;
    let small = thread.small_copies;
    let stretches = small.small_copy_stretches;
    let longest = stretches.longest?;
    let share = percent(stretches.total_ns, thread.span_ns());
    if stretches.calls < STORM || share < SHARE_PERCENT * 2 {
        return None;
    }
    let each = small.small_copy_bytes / small.small_copies.max(1);
    let each_ns = small.small_copy_ns / small.small_copies.max(1);
    Some(Finding {
        id: format!("transfer.small_copies:{pid}:{tid}"),
        family: Family::Transfer,
        severity: Severity::Warning,
        claim: format!(
            "Thread {tid} of process {pid} makes {} small copies in a row, of {} each: the calls \
             cost more than the bytes.",
            count(stretches.calls),
            bytes(each)
        ),
        numbers: BTreeMap::from([
            ("copies_in_a_row", stretches.calls.into()),
            ("small_copies", small.small_copies.into()),
            ("copied_bytes", small.small_copy_bytes.into()),
            ("calls_ns", small.small_copy_ns.into()),
            ("stretches_ns", stretches.total_ns.into()),
            ("span_ns", thread.span_ns().into()),
        ]),
        confidence: confidence(report),
        evidence: vec![Evidence {
            pid: Some(pid),
            from_ns: Some(longest.from_ns),
            to_ns: Some(longest.to_ns),
            ..Evidence::new(format!(
                "the longest stretch has {} copies; a call takes {} for {}",
                count(longest.calls),
                duration(each_ns),
                bytes(each)
            ))
        }],
        unknowns: vec!["Whether they could be one copy: that depends on the data.".to_owned()],
        next_step: "Put the pieces together on the host and copy once (torch.cat or one pinned \
                    buffer), or use cudaMemcpyBatchAsync; a copy needs some tens of KiB before its bytes \
                    take longer than its call."
            .to_owned(),
    })
}

/// What copies of pinned memory reach in this recording: by whole copies, else by what was
/// waited for.
fn pinned_rate(report: &Report, direction: Direction) -> Option<u64> {
    let pinned = report.host.transfers.iter().filter(|row| {
        let is_pinned = matches!(row.host, Some(HostMemory::Pinned | HostMemory::Registered));
        row.direction == direction && is_pinned
    });
    pinned
        .filter_map(|row| {
            let rate = row
                .bulk
                .bytes_per_second
                .or(row.bulk.waited_bytes_per_second);
            rate.map(|rate| rate.p50)
        })
        .max()
}

fn confidence(report: &Report) -> Confidence {
    if report.recording.lost.any() == Some(true) {
        Confidence::Low
    } else {
        Confidence::High
    }
}
