//! The shape of a line of memory, judged by its *durable* floor: what was never given back, up to
//! the end. That is the least that the total still has ahead of it, so it never falls.
//!
//! Each rise of the durable floor is a step. Steps of a leak come one by one at all times, like
//! those of a compound Poisson process: their sum has the variance of the sum of their squares,
//! whatever their sizes, and rises in separate bins do not depend on one another as the values of
//! the curve do. So the standard error of a growth is the root of that sum, and
//! `growth² / squares` is how many steps of one size would be as telling. A jump, however high,
//! is one.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates of bytes: 53 bits are more than is known"
)]

use serde::Serialize;

use super::line::Line;
use super::series::{Bin, Clock};

/// A leak is told after this long, ns: programs that start, load and warm up are done.
const TOLD_AFTER: u64 = 10 * 60 * 1_000_000_000;

/// Or after this long, where the program gives back far more than it keeps, as none does that
/// only loads.
const TOLD_AFTER_WHEN_BUSY: u64 = 60 * 1_000_000_000;

/// How many times what is kept has to be given back for that.
const BUSY: u64 = 10;

/// A growth below this is nothing yet, bytes: eight pages, or what a library may want late.
const MIN_GROWTH: u64 = 16 << 20;

/// Equal steps that a growth has to be as telling as. A growth that random jumps make by chance
/// has the error of its root: this is 2.8 errors from none.
const MIN_STEPS: f64 = 8.0;

/// And that it takes in a short time.
const MIN_STEPS_WHEN_BUSY: f64 = 30.0;

/// How many times faster something grew before that is settling.
const SLOWING: std::ops::Range<f64> = 1.6..6.0;

/// Errors on both sides of a rate: 99 %.
const ERRORS: f64 = 2.58;

/// How a line of memory went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// It grows step by step, all the time, and nothing of it comes back.
    Growing,
    /// It grows, but by blocks that take the place of others: load that rises, or something that
    /// is copied to grow.
    Replaced,
    /// It grew in a few jumps and stayed there.
    Stepped,
    /// It grew, and does so less and less.
    Settling,
    /// It comes and goes.
    Sawtooth,
    /// It hardly changes.
    Steady,
    /// It grows, and the recording is too short to tell.
    TooShort,
}

impl Shape {
    /// The name in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Growing => "growing",
            Self::Replaced => "replaced",
            Self::Stepped => "stepped",
            Self::Settling => "settling",
            Self::Sawtooth => "sawtooth",
            Self::Steady => "steady",
            Self::TooShort => "too_short",
        }
    }
}

/// How fast a line grows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// Bytes a second over the judged window.
    pub bytes_per_second: f64,
    /// With 99 % confidence at least this.
    pub low_bytes_per_second: f64,
    /// And at most this.
    pub high_bytes_per_second: f64,
    /// What it grew by.
    pub growth_bytes: u64,
    /// Equal steps that this is as telling as.
    pub steps: u64,
    /// Where the judged window begins, ns of `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// Where it ends.
    pub to_ns: u64,
}

/// What each cycle of coming and going leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cycles {
    /// Cycles after the first one, whose growth is the baseline.
    pub count: u64,
    /// What one leaves, bytes: the median.
    pub left_bytes: u64,
}

/// A line and what is around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged<'a> {
    pub(super) line: &'a Line,
    pub(super) clock: Clock,
    /// How often memory of the process fell, by bin.
    pub(super) activity: &'a [u64],
    /// Whether its blocks are told apart.
    pub(super) has_blocks: bool,
}

impl Judged<'_> {
    /// Its shape, and its rate where it grows. A quarter is left to start and warm up; if that
    /// was not enough, half.
    pub(super) fn shape(self) -> (Shape, Option<Rate>) {
        let bins = self.line.series.bins();
        let first = self.line.series.first();
        let length = bins.len().saturating_sub(first);
        if length < 16 {
            return (Shape::TooShort, None);
        }
        let floor = durable(bins);
        let (early, late) = (first + length / 4, first + length / 2);
        let whole = self.in_window(&floor, early);
        if whole.0 == Shape::Growing {
            return whole;
        }
        let second = self.in_window(&floor, late);
        let Some(rate) = second.1.filter(|_| second.0 == Shape::Growing) else {
            return whole;
        };
        // What grew somewhat faster before is settling; what grew much faster was another phase.
        let before = floor[late].saturating_sub(floor[early]) as f64;
        let seconds = self.clock.width() as f64 * (late - early) as f64 / 1e9;
        if SLOWING.contains(&(before / seconds / rate.bytes_per_second)) {
            return (Shape::Settling, None);
        }
        second
    }

    fn in_window(self, floor: &[u64], start: usize) -> (Shape, Option<Rate>) {
        let (bins, end) = (self.line.series.bins(), floor.len());
        let growth = between(floor, start, end - 1);
        if growth < MIN_GROWTH {
            return (restless(&bins[start..]), None);
        }
        let squares: f64 = floor[start..]
            .windows(2)
            .map(|pair| ((pair[1] - pair[0]) as f64).powi(2))
            .sum();
        let steps = (growth as f64).powi(2) / squares;
        let span = end - 1 - start;
        let middle = start + span / 2;
        let (one, other) = (
            between(floor, start, middle) as f64,
            between(floor, middle, end - 1) as f64,
        );
        let last_third = between(floor, end - 1 - span / 3, end - 1) as f64;
        let earlier = &bins[self.line.series.first()..start];
        let reached = earlier.iter().map(|bin| bin.low).max().unwrap_or(0);
        if reached >= floor[start].saturating_add(growth / 2) {
            return (Shape::Sawtooth, None);
        }
        let is_slower = (one - other) / squares.sqrt() > 3.0 && other < 0.6 * one;
        if steps < MIN_STEPS {
            return (Shape::Stepped, None);
        }
        // All of it is new, like the last tooth of a saw.
        if one < 0.25 * other {
            return (Shape::Sawtooth, None);
        }
        // Of few steps many may lie in one half by chance; of more, hardly.
        let slow = if steps < 16.0 { 0.3 } else { 0.15 };
        if other < slow * one || last_third < 0.06 * growth as f64 || is_slower {
            return (Shape::Settling, None);
        }
        if self.has_blocks && !self.survive(growth, start, middle) {
            return (Shape::Replaced, None);
        }
        let window = self.clock.width().saturating_mul(span as u64);
        let rate = self.rate(growth, steps, start, end - 1);
        if window >= TOLD_AFTER || self.is_busy(window, steps, start) {
            (Shape::Growing, Some(rate))
        } else {
            (Shape::TooShort, Some(rate))
        }
    }

    /// Whether blocks of all ages are left: they account for the growth, and not the latest
    /// alone.
    fn survive(self, growth: u64, start: usize, middle: usize) -> bool {
        let of = |bins: &[u64]| bins.iter().copied().fold(0, u64::saturating_add);
        let survivors = &self.line.survivors;
        let (Some(window), Some(early)) = (survivors.get(start..), survivors.get(start..middle))
        else {
            return false;
        };
        let (window, early) = (of(window), of(early));
        window >= growth / 2 && early >= window / 4
    }

    fn is_busy(self, window: u64, steps: f64, start: usize) -> bool {
        let falls: u64 = self.activity.iter().skip(start).sum();
        window >= TOLD_AFTER_WHEN_BUSY
            && steps >= MIN_STEPS_WHEN_BUSY
            && falls >= self.line.survivor_count.saturating_mul(BUSY)
    }

    fn rate(self, growth: u64, steps: f64, start: usize, end: usize) -> Rate {
        let (from_ns, to_ns) = (self.clock.moment(start), self.clock.moment(end));
        let seconds = (to_ns - from_ns) as f64 / 1e9;
        let bytes_per_second = growth as f64 / seconds;
        let error = ERRORS * bytes_per_second / steps.sqrt();
        Rate {
            bytes_per_second,
            low_bytes_per_second: (bytes_per_second - error).max(0.0),
            high_bytes_per_second: bytes_per_second + error,
            growth_bytes: growth,
            steps: steps.round() as u64,
            from_ns,
            to_ns,
        }
    }
}

/// The durable floor.
fn durable(bins: &[Bin]) -> Vec<u64> {
    let mut floor: Vec<u64> = bins.iter().map(|bin| bin.low).collect();
    let mut least = u64::MAX;
    for value in floor.iter_mut().rev() {
        least = least.min(*value);
        *value = least;
    }
    floor
}

fn between(floor: &[u64], start: usize, end: usize) -> u64 {
    floor[end].saturating_sub(floor[start])
}

/// Whether what does not grow comes and goes.
fn restless(bins: &[Bin]) -> Shape {
    let low = bins.iter().map(|bin| bin.low).min().unwrap_or(0);
    let high = bins.iter().map(|bin| bin.high).max().unwrap_or(0);
    if high - low > MIN_GROWTH.max(high / 10) {
        Shape::Sawtooth
    } else {
        Shape::Steady
    }
}
