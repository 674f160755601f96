//! Is the memory fragmented? Free memory that is held and cannot be used, on two levels:
//! inside the segments of PyTorch's caching allocator, and inside the device's pages.
//!
//! [`Collector`] takes the events of a recording and makes a [`Report`]; [`write_text`] shows
//! it to a person, its serialization is the JSON of docs/fragmentation.md. Holes between device
//! allocations are no fragmentation: the driver maps pages anywhere, and a request succeeds
//! whatever the holes in the address space look like.

mod collect;
mod driver;
mod fit;
mod picture;
mod report;
mod requests;
mod size;
mod strand;
mod text;
mod torch;

pub(crate) use collect::Watch;
pub use collect::{COLUMNS, Collector};
pub use report::{
    Block, CachedFit, Device, DeviceMemory, Driver, Fit, FreeSize, HeldBy, LateStart, Map,
    NewSegmentFit, OutOfMemory, Pinned, PoolReport, Process, Recording, Report, Retry, SCHEMA,
    Segment, Strand, Torch,
};
pub use size::{Size, SizeError};
pub use text::write_text;
