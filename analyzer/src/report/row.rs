//! One row, of which only the columns are read that are asked for.

use agent_common::ApiId;
use agent_common::launch::Dimensions;
use trace::{Event, EventBatch, Kind};

/// Rows that the processor's cache has room for, with all their columns: 128 KiB at most.
const NEAR: usize = 512;

/// One row of a batch. What each method gives is what [`Event`] says of the field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    batch: &'a EventBatch,
    place: usize,
    // What is asked for again and again is read once.
    timestamp: u64,
    duration: Option<u64>,
    pid: u32,
    tid: u32,
    result: Option<i32>,
    flags: u32,
}

impl<'a> Row<'a> {
    /// All rows of a batch, in order.
    pub(crate) fn all(batch: &'a EventBatch) -> impl Iterator<Item = Self> {
        (0..batch.len()).map(|place| {
            if place.is_multiple_of(NEAR) {
                batch.preload(place..batch.len().min(place + NEAR));
            }
            Self::at(batch, place)
        })
    }

    /// One row. Panics where the batch has none at this place.
    #[inline]
    pub(crate) fn at(batch: &'a EventBatch, place: usize) -> Self {
        Self {
            batch,
            place,
            timestamp: batch.ts()[place],
            duration: batch.duration().get(place),
            pid: batch.pid()[place],
            tid: batch.tid()[place],
            result: batch.result().get(place),
            flags: batch.flags()[place],
        }
    }

    /// Its place in the batch.
    #[inline]
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// All columns.
    pub(crate) fn event(&self) -> Event {
        self.batch.event(self.place)
    }

    #[inline]
    pub(crate) fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// The last moment that the row tells of.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.timestamp()
            .saturating_add(self.duration().unwrap_or(0))
    }

    #[inline]
    pub(crate) fn duration(&self) -> Option<u64> {
        self.duration
    }

    #[inline]
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    #[inline]
    pub(crate) fn tid(&self) -> u32 {
        self.tid
    }

    #[inline]
    pub(crate) fn parent(&self) -> Option<ApiId> {
        self.batch.parent().get(self.place)
    }

    #[inline]
    pub(crate) fn stream(&self) -> Option<u64> {
        self.batch.stream().get(self.place)
    }

    #[inline]
    pub(crate) fn caller(&self) -> Option<u32> {
        self.batch.caller().get(self.place)
    }

    #[inline]
    pub(crate) fn device(&self) -> Option<i32> {
        self.batch.device().get(self.place)
    }

    #[inline]
    pub(crate) fn related(&self) -> Option<u64> {
        self.batch.related().get(self.place)
    }

    #[inline]
    pub(crate) fn count(&self) -> Option<u64> {
        self.batch.count().get(self.place)
    }

    #[inline]
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.batch.kind().get(self.place)
    }

    #[inline]
    pub(crate) fn api(&self) -> Option<ApiId> {
        self.batch.api().get(self.place)
    }

    #[inline]
    pub(crate) fn result(&self) -> Option<i32> {
        self.result
    }

    /// Bytes, for all but PyTorch's reports: those are signed.
    #[inline]
    pub(crate) fn size(&self) -> Option<u64> {
        self.signed_size().map(i64::cast_unsigned)
    }

    #[inline]
    pub(crate) fn signed_size(&self) -> Option<i64> {
        self.batch.size().get(self.place)
    }

    #[inline]
    pub(crate) fn address(&self) -> Option<u64> {
        self.batch.address().get(self.place)
    }

    #[inline]
    pub(crate) fn source(&self) -> Option<u64> {
        self.batch.source().get(self.place)
    }

    #[inline]
    pub(crate) fn copy_kind(&self) -> Option<u8> {
        self.batch.copy_kind().get(self.place)
    }

    #[inline]
    pub(crate) fn dimensions(&self) -> Option<Dimensions> {
        let Self {
            batch, place: row, ..
        } = *self;
        Some(Dimensions {
            grid: [
                batch.grid_x().get(row)?,
                batch.grid_y().get(row)?,
                batch.grid_z().get(row)?,
            ],
            block: [
                batch.block_x().get(row)?,
                batch.block_y().get(row)?,
                batch.block_z().get(row)?,
            ],
        })
    }

    #[inline]
    pub(crate) fn handle(&self) -> Option<u64> {
        self.batch.handle().get(self.place)
    }

    #[inline]
    pub(crate) fn option(&self) -> Option<u64> {
        self.batch.option().get(self.place)
    }

    #[inline]
    pub(crate) fn kernel(&self) -> Option<u32> {
        self.batch.kernel().get(self.place)
    }

    #[inline]
    pub(crate) fn flags(&self) -> u32 {
        self.flags
    }

    pub(crate) fn text(&self) -> Option<&'a str> {
        self.batch.text().get(self.place)
    }
}
