//! What the last minute was like.

use std::collections::VecDeque;

use agent_common::CLASSES;

/// How far back it goes, ns.
pub(super) const SPAN: u64 = 60_000_000_000;
/// What is kept together, ns.
const SLICE: u64 = 1_000_000_000;

/// A stretch of time.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    /// ns.
    length: u64,
    /// Of it, ns in a window.
    open: u64,
    /// ns of the busiest thread, by class.
    cost: [f64; CLASSES],
}

/// The last minute, by the second.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    slices: VecDeque<Slice>,
    length: u64,
}

impl History {
    /// So much time has gone by.
    pub(super) fn add(&mut self, length: u64, is_open: bool, cost: [f64; CLASSES]) {
        let is_full = |slice: &Slice| slice.length >= SLICE;
        if self.slices.back().is_none_or(is_full) {
            self.slices.push_back(Slice::default());
        }
        if let Some(slice) = self.slices.back_mut() {
            slice.length += length;
            slice.open += if is_open { length } else { 0 };
            for (sum, cost) in slice.cost.iter_mut().zip(cost) {
                *sum += cost;
            }
        }
        self.length += length;
        while let Some(first) = self.slices.front()
            && self.length - first.length >= SPAN
        {
            self.length -= first.length;
            self.slices.pop_front();
        }
    }

    /// ns of the busiest thread for each ns, of one class; over so much time at least.
    pub(super) fn rate(&self, class: usize, least: u64) -> f64 {
        let cost: f64 = self.slices.iter().map(|slice| slice.cost[class]).sum();
        cost / nanoseconds(self.length.max(least))
    }

    /// Share of the time that windows were open.
    pub(super) fn window(&self) -> f64 {
        let open: u64 = self.slices.iter().map(|slice| slice.open).sum();
        nanoseconds(open) / nanoseconds(self.length.max(1))
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "104 days of nanoseconds are exact"
)]
pub(super) fn nanoseconds(time: u64) -> f64 {
    time as f64
}
