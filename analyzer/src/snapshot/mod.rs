//! PyTorch memory snapshots: what `torch.cuda.memory._dump_snapshot()` writes.
//!
//! [`read`] reads one, whoever wrote it: nothing in the file can run, and what is held in
//! memory is its blocks and distinct call stacks. [`Report::new`] sums it up in the terms of
//! PyTorch's own viewer, [`Search`] finds its moment in a recording of the same run, and
//! [`write_text`] shows the report to a person.

mod fit;
mod history;
mod history_report;
mod intern;
mod join;
mod model;
mod pickle;
mod report;
mod summary;
mod text;

pub use history::{History, Point, RanOut};
pub use intern::{Frame, FrameId, Names, StackId, StringId};
pub use join::{Comparison, Difference, Join, JoinedDevice, Search};
pub use model::{Block, Segment, Settings, Snapshot, State};
pub use pickle::{PickleError, read};
pub use report::{
    BlockReport, CurvePoint, Device, File, Fit, FreeSize, HistoryReport, Holder, OutOfMemory, Peak,
    Pinned, Pool, PoolFit, Report, SCHEMA, SegmentReport, SettingsReport, Totals,
};
pub(crate) use summary::at as frame_outside_torch;
pub use text::write_text;
