//! Recordings in the formats of other tools.
//!
//! [`Exporter`] takes the batches of a recording and hands each selected row to a [`Sink`], one for
//! each format. Every row makes exactly one event of the output (docs/export.md). What is kept
//! grows with the distinct names, threads and live blocks of a recording, never with its rows.

mod chrome;
mod clock;
mod columns;
mod csv;
mod exporter;
pub mod folded;
mod json;
mod jsonl;
mod lanes;
mod live;
mod names;
#[cfg(feature = "parquet")]
mod parquet;
mod perfetto;
mod row;

use std::io;

pub use self::csv::Csv;
pub use chrome::Chrome;
pub use exporter::{Exported, Exporter};
pub use jsonl::JsonLines;
pub use names::Names;
#[cfg(feature = "parquet")]
pub use parquet::Parquet;
pub use perfetto::Perfetto;
pub use row::Row;

/// One format's writer.
pub trait Sink {
    /// Writes one row; exactly one event of the format.
    fn row(&mut self, row: &Row<'_>) -> io::Result<()>;

    /// Writes what stands at the end; gives the bytes of all.
    fn finish(self: Box<Self>, names: &Names) -> io::Result<u64>;
}
