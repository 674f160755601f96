//! How large a segment is and may become.

use std::time::{Duration, Instant};

use super::disk::Written;

/// Segments of a budget.
const PARTS: u64 = 16;
/// A segment is not meant to be smaller, for each begins with the schema and what is known.
const SMALLEST: u64 = 256 << 10;
/// Nor larger, for it takes long to read.
const LARGEST: u64 = 128 << 20;
/// The longest time for one segment.
const LONGEST: Duration = Duration::from_hours(1);
/// Bytes of a row on the disk, until that is known.
const ROW: u64 = 16;

/// Bytes of a segment, of a budget.
pub(super) fn segment_bytes(budget: u64) -> u64 {
    (budget / PARTS).clamp(SMALLEST, LARGEST)
}

/// The size of one segment.
#[derive(Debug)]
pub(super) struct SegmentSize {
    limit: u64,
    begun: Instant,
    header_rows: u64,
    header_bytes: u64,
    /// Rows handed over.
    sent: u64,
    written: Written,
}

impl SegmentSize {
    pub(super) fn new(limit: u64, header_rows: u64) -> Self {
        Self {
            limit,
            begun: Instant::now(),
            header_rows,
            header_bytes: 0,
            sent: header_rows,
            written: Written::default(),
        }
    }

    /// Rows are handed over.
    pub(super) fn sent(&mut self, rows: u64) {
        self.sent += rows;
    }

    /// So much lies on the disk.
    pub(super) fn written(&mut self, written: Written) {
        if written.rows == self.header_rows {
            self.header_bytes = written.bytes;
        }
        self.written = written;
    }

    /// Whether the next one is to begin: it has its bytes, or its time. What it begins with is at
    /// most half of it.
    pub(super) fn is_full(&self) -> bool {
        let Written { rows, bytes, .. } = self.written;
        if rows < self.header_rows {
            return false;
        }
        let row_bytes = bytes
            .saturating_sub(self.header_bytes)
            .checked_div(rows - self.header_rows)
            .unwrap_or(ROW);
        let to_come = (self.sent - rows).saturating_mul(row_bytes);
        bytes + to_come >= self.limit.max(2 * self.header_bytes) || self.begun.elapsed() >= LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(rows: u64, bytes: u64) -> Written {
        Written {
            rows,
            bytes,
            is_closed: false,
        }
    }

    #[test]
    fn segments_are_a_fraction_of_the_budget() {
        assert_eq!(segment_bytes(2 << 30), 128 << 20);
        assert_eq!(segment_bytes(8 << 20), 512 << 10);
        assert_eq!(segment_bytes(1 << 20), 256 << 10);
        assert_eq!(segment_bytes(1 << 50), 128 << 20);
    }

    #[test]
    fn rows_on_their_way_count() {
        let mut size = SegmentSize::new(1000, 10);
        assert!(!size.is_full());
        size.sent(1000);
        assert!(!size.is_full(), "the header is not written");
        size.written(written(10, 400));
        assert!(size.is_full(), "1,000 rows are on their way");
        let mut size = SegmentSize::new(1000, 10);
        size.written(written(10, 400));
        size.sent(100);
        size.written(written(110, 500));
        assert!(!size.is_full());
        size.sent(500);
        assert!(size.is_full(), "of a byte each");
    }

    #[test]
    fn a_header_is_at_most_half() {
        let mut size = SegmentSize::new(1000, 10);
        size.written(written(10, 5000));
        size.sent(100);
        size.written(written(110, 9000));
        assert!(!size.is_full());
        size.sent(100);
        size.written(written(210, 10_000));
        assert!(size.is_full());
    }
}
