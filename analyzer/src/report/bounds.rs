//! The selected stretch of time, once it is known when the recording starts.

use crate::selection::Selection;

/// Its bounds, ns of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// When the recording starts; `None` before its first row.
    pub(super) start: Option<u64>,
    pub(super) from: u64,
    pub(super) to: Option<u64>,
}

impl Bounds {
    /// Takes in the time of a row; whether it is the first.
    #[inline]
    pub(super) fn begin(&mut self, selection: &Selection, timestamp: u64) -> bool {
        if self.start.is_some() {
            return false;
        }
        *self = Self {
            start: Some(timestamp),
            from: selection.from.map_or(0, |from| from.after(timestamp)),
            to: selection.to.map(|to| to.after(timestamp)),
        };
        true
    }

    #[inline]
    pub(super) fn is_before_end(&self, moment: u64) -> bool {
        self.to.is_none_or(|to| moment < to)
    }
}
