//! How many series there may be. Prometheus keeps each in memory: what processes choose to call
//! themselves and their kernels must not decide how many there are. docs/metrics.md has the sum.

/// Processes with a label of their own, at a time.
pub(super) const PROCESSES: usize = 32;
/// Series of calls, by process, function and result.
pub(super) const CALLS: u32 = 1500;
/// Series of errors, by function and error.
pub(super) const ERRORS: u32 = 200;
/// Functions with durations of their own.
pub(super) const TIMED: u32 = 60;
/// Kernels with a series of their own, at a time.
pub(super) const KERNELS: usize = 50;
/// Pairs of process and device.
pub(super) const DEVICES: usize = 64;
/// Library files with a series of their own.
pub(super) const LIBRARIES: usize = 16;

/// Characters of a process's title in its label.
pub(super) const TITLE: usize = 64;
/// Characters of a kernel's name in its label.
pub(super) const KERNEL_NAME: usize = 96;

/// The label of all that has none of its own.
pub(super) const OTHER: &str = "other";
/// The label of what is not known.
pub(super) const UNKNOWN: &str = "unknown";

/// A number of series that are still to be had.
#[derive(Debug)]
pub(super) struct Budget {
    left: u32,
    /// How often there was none.
    pub(super) refused: u64,
}

impl Budget {
    pub(super) const fn new(series: u32) -> Self {
        Self {
            left: series,
            refused: 0,
        }
    }

    /// Whether there is one more.
    pub(super) fn claim(&mut self) -> bool {
        let has_one = self.left > 0;
        self.left -= u32::from(has_one);
        self.refused += u64::from(!has_one);
        has_one
    }

    /// Gives some back.
    pub(super) fn release(&mut self, series: u32) {
        self.left += series;
    }
}

/// Text that a traced program chose, cut, and without what is no text.
pub(super) fn label(text: &str, most: usize) -> String {
    text.chars()
        .take(most)
        .map(|c| {
            if c.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect()
}
