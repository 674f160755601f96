//! One row, of which only the columns are read that are asked for.

use agent_common::ApiId;
use agent_common::launch::Dimensions;
use trace::{Event, EventBatch, Kind};

/// One row of a batch. What each method gives is what [`Event`] says of the field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    batch: &'a EventBatch,
    row: usize,
}

impl<'a> Row<'a> {
    /// All rows of a batch, in order.
    pub(super) fn all(batch: &'a EventBatch) -> impl Iterator<Item = Self> {
        (0..batch.len()).map(move |row| Self { batch, row })
    }

    /// All columns.
    pub(super) fn event(self) -> Event {
        self.batch.event(self.row)
    }

    #[inline]
    pub(super) fn timestamp(self) -> u64 {
        self.batch.ts()[self.row]
    }

    /// The last moment that the row tells of.
    #[inline]
    pub(super) fn end(self) -> u64 {
        self.timestamp()
            .saturating_add(self.duration().unwrap_or(0))
    }

    #[inline]
    pub(super) fn duration(self) -> Option<u64> {
        self.batch.duration().get(self.row)
    }

    #[inline]
    pub(super) fn pid(self) -> u32 {
        self.batch.pid()[self.row]
    }

    #[inline]
    pub(super) fn tid(self) -> u32 {
        self.batch.tid()[self.row]
    }

    #[inline]
    pub(super) fn device(self) -> Option<i32> {
        self.batch.device().get(self.row)
    }

    #[inline]
    pub(super) fn related(self) -> Option<u64> {
        self.batch.related().get(self.row)
    }

    #[inline]
    pub(super) fn count(self) -> Option<u64> {
        self.batch.count().get(self.row)
    }

    #[inline]
    pub(super) fn kind(self) -> Option<Kind> {
        self.batch.kind().get(self.row)
    }

    #[inline]
    pub(super) fn api(self) -> Option<ApiId> {
        self.batch.api().get(self.row)
    }

    #[inline]
    pub(super) fn result(self) -> Option<i32> {
        self.batch.result().get(self.row)
    }

    /// Bytes, for all but PyTorch's reports: those are signed.
    #[inline]
    pub(super) fn size(self) -> Option<u64> {
        self.signed_size().map(i64::cast_unsigned)
    }

    #[inline]
    pub(super) fn signed_size(self) -> Option<i64> {
        self.batch.size().get(self.row)
    }

    #[inline]
    pub(super) fn address(self) -> Option<u64> {
        self.batch.address().get(self.row)
    }

    #[inline]
    pub(super) fn source(self) -> Option<u64> {
        self.batch.source().get(self.row)
    }

    #[inline]
    pub(super) fn copy_kind(self) -> Option<u8> {
        self.batch.copy_kind().get(self.row)
    }

    #[inline]
    pub(super) fn dimensions(self) -> Option<Dimensions> {
        let Self { batch, row } = self;
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
    pub(super) fn handle(self) -> Option<u64> {
        self.batch.handle().get(self.row)
    }

    #[inline]
    pub(super) fn kernel(self) -> Option<u32> {
        self.batch.kernel().get(self.row)
    }

    #[inline]
    pub(super) fn flags(self) -> u32 {
        self.batch.flags()[self.row]
    }

    pub(super) fn text(self) -> Option<&'a str> {
        self.batch.text().get(self.row)
    }
}
