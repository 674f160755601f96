//! The lists: what there is many of, as rows that can be sorted and filtered.

use std::{cmp::Ordering, collections::BTreeMap};

use super::reading::{HolderKey, Reading};

/// One list is shown at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// Memory by holder.
    Memory,
    /// Kernels by launches.
    Kernels,
    /// Functions by calls.
    Functions,
    /// Processes by calls.
    Processes,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Characters; 0 for the last one, which has the rest.
    pub(super) width: u16,
}

/// What a row has in a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Text(String),
    Count(u64),
    Bytes(u64),
    /// A second; `None`: not known yet.
    Rate(Option<f64>),
    ByteRate(Option<f64>),
    /// From 0 to 1.
    Share(Option<f64>),
    /// s.
    Time(Option<f64>),
}

/// A row.
pub(super) type Row = Vec<Cell>;

const fn column(title: &'static str, width: u16) -> Column {
    Column { title, width }
}

impl List {
    pub(super) const ALL: [Self; 4] = [
        Self::Memory,
        Self::Kernels,
        Self::Functions,
        Self::Processes,
    ];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Memory => "Memory",
            Self::Kernels => "Kernels",
            Self::Functions => "Functions",
            Self::Processes => "Processes",
        }
    }

    /// The last one names the row.
    pub(super) const fn columns(self) -> &'static [Column] {
        match self {
            Self::Memory => {
                const {
                    &[
                        column("PID", 8),
                        column("GPU", 3),
                        column("KIND", 15),
                        column("COUNT", 9),
                        column("BYTES", 9),
                        column("CHANGE/s", 10),
                        column("CALLER", 0),
                    ]
                }
            }
            Self::Kernels => {
                const {
                    &[
                        column("LAUNCHES/s", 12),
                        column("LAUNCHES", 15),
                        column("SHARE", 7),
                        column("KERNEL", 0),
                    ]
                }
            }
            Self::Functions => {
                const {
                    &[
                        column("CALLS/s", 12),
                        column("CALLS", 15),
                        column("FAILED", 9),
                        column("MEAN", 9),
                        column("FUNCTION", 0),
                    ]
                }
            }
            Self::Processes => {
                const {
                    &[
                        column("CALLS/s", 12),
                        column("CALLS", 15),
                        column("COPIED/s", 10),
                        column("COPIED", 9),
                        column("WAITING", 8),
                        column("PROCESS", 0),
                    ]
                }
            }
        }
    }

    /// The column that it is sorted by at first: what there is most of.
    pub(super) const fn first_order(self) -> usize {
        match self {
            Self::Memory => 4,
            Self::Kernels | Self::Functions | Self::Processes => 1,
        }
    }

    /// The rows, in no order.
    pub(super) fn rows(self, now: &Reading, before: Option<&Reading>) -> Vec<Row> {
        let since = Since::new(now, before);
        match self {
            Self::Memory => memory(now, &since),
            Self::Kernels => kernels(now, &since),
            Self::Functions => functions(now, &since),
            Self::Processes => processes(now, &since),
        }
    }
}

/// What changed between two readings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since<'a> {
    /// The one before, and the seconds since then.
    before: Option<(&'a Reading, f64)>,
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
impl<'a> Since<'a> {
    pub(super) fn new(now: &Reading, before: Option<&'a Reading>) -> Self {
        let before = before.and_then(|before| {
            let ns = now.at_ns.checked_sub(before.at_ns).filter(|ns| *ns > 0)?;
            Some((before, ns as f64 / 1e9))
        });
        Self { before }
    }

    /// By how much a count grows in a second. `None` where it went down, too: another server
    /// counts anew.
    pub(super) fn rate(&self, now: u64, of: impl Fn(&Reading) -> u64) -> Option<f64> {
        let (before, seconds) = self.before?;
        let growth = now.checked_sub(of(before))?;
        Some(growth as f64 / seconds)
    }

    /// Seconds of something in a second.
    pub(super) fn share(&self, now: f64, of: impl Fn(&Reading) -> f64) -> Option<f64> {
        let (before, seconds) = self.before?;
        let growth = now - of(before);
        (growth >= 0.0).then_some(growth / seconds)
    }

    /// By how much bytes change in a second, up or down.
    fn change(&self, now: u64, of: impl Fn(&Reading) -> u64) -> Option<f64> {
        let (before, seconds) = self.before?;
        Some((now as f64 - of(before) as f64) / seconds)
    }
}

fn memory(now: &Reading, since: &Since<'_>) -> Vec<Row> {
    let earlier: BTreeMap<&HolderKey, u64> = since
        .before
        .iter()
        .flat_map(|(before, _)| &before.holders)
        .map(|holder| (&holder.key, holder.bytes))
        .collect();
    let row = |holder: &super::reading::Holder| {
        let then = earlier.get(&holder.key).copied().unwrap_or(0);
        let HolderKey {
            pid,
            device,
            caller,
            kind,
        } = &holder.key;
        vec![
            Cell::Text(pid.to_string()),
            Cell::Text(ordinal(*device)),
            Cell::Text(kind.clone()),
            Cell::Count(holder.count),
            Cell::Bytes(holder.bytes),
            Cell::ByteRate(since.change(holder.bytes, |_| then)),
            Cell::Text(caller.as_deref().map_or("unknown", file_name).to_owned()),
        ]
    };
    now.holders.iter().map(row).collect()
}

fn kernels(now: &Reading, since: &Since<'_>) -> Vec<Row> {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let share = |launches: u64| (now.launches > 0).then(|| launches as f64 / now.launches as f64);
    let rows = now.kernels.iter().map(|(name, launches)| {
        let then = |before: &Reading| before.kernels.get(name).copied().unwrap_or(0);
        vec![
            Cell::Rate(since.rate(*launches, then)),
            Cell::Count(*launches),
            Cell::Share(share(*launches)),
            Cell::Text(name.clone()),
        ]
    });
    rows.collect()
}

fn functions(now: &Reading, since: &Since<'_>) -> Vec<Row> {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let mean = |seconds: f64, timed: u64| (timed > 0).then(|| seconds / timed as f64);
    let rows = now.functions.iter().map(|(name, function)| {
        let then = |before: &Reading| before.functions.get(name).map_or(0, |then| then.calls);
        vec![
            Cell::Rate(since.rate(function.calls, then)),
            Cell::Count(function.calls),
            Cell::Count(function.errors),
            Cell::Time(mean(function.seconds, function.timed)),
            Cell::Text(name.clone()),
        ]
    });
    rows.collect()
}

fn processes(now: &Reading, since: &Since<'_>) -> Vec<Row> {
    let rows = now.by_process.iter().map(|(name, process)| {
        let then = |before: &Reading| before.by_process.get(name).copied().unwrap_or_default();
        vec![
            Cell::Rate(since.rate(process.calls, |before| then(before).calls)),
            Cell::Count(process.calls),
            Cell::ByteRate(since.rate(process.copied, |before| then(before).copied)),
            Cell::Bytes(process.copied),
            Cell::Share(since.share(process.waited, |before| then(before).waited)),
            Cell::Text(name.clone()),
        ]
    });
    rows.collect()
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A device's ordinal as it is shown.
pub(super) fn ordinal(device: Option<i32>) -> String {
    device.map_or_else(|| "-".to_owned(), |device| device.to_string())
}

impl Cell {
    /// The order of two cells of one column; what is not known comes first.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => natural(one, other),
            (Self::Count(one) | Self::Bytes(one), Self::Count(other) | Self::Bytes(other)) => {
                one.cmp(other)
            }
            (
                Self::Rate(one) | Self::ByteRate(one) | Self::Share(one) | Self::Time(one),
                Self::Rate(other) | Self::ByteRate(other) | Self::Share(other) | Self::Time(other),
            ) => one.partial_cmp(other).unwrap_or(Ordering::Equal),
            // Of two columns: nobody asks for that.
            (
                Self::Text(_)
                | Self::Count(_)
                | Self::Bytes(_)
                | Self::Rate(_)
                | Self::ByteRate(_)
                | Self::Share(_)
                | Self::Time(_),
                _,
            ) => Ordering::Equal,
        }
    }

    /// Whether more is at the top, where nothing else is asked for.
    pub(super) const fn falls(&self) -> bool {
        !matches!(self, Self::Text(_))
    }

    /// Whether it is text that has `pattern`, in small letters, in it.
    pub(super) fn has(&self, pattern: &str) -> bool {
        matches!(self, Self::Text(text) if text.to_lowercase().contains(pattern))
    }
}

/// Numbers by value, else letter by letter.
fn natural(one: &str, other: &str) -> Ordering {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one.cmp(&other),
        (Ok(_) | Err(_), Ok(_) | Err(_)) => one.cmp(other),
    }
}
