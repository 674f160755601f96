//! The table of a recording: its columns, its dictionaries and its metadata.

use std::sync::{Arc, LazyLock};

use agent_common::{ApiId, Family, Layer};
use arrow_array::types::ArrowDictionaryKeyType;
use arrow_array::{ArrowPrimitiveType, types};
use arrow_buffer::ArrowNativeType;
use arrow_schema::{Field, Metadata, Schema, SchemaRef};

use crate::Kind;
use crate::columns::{Column, Names, Optional, Required, Text};

/// Version of the format that this build writes, and the newest that it reads. It changes
/// only when an older reader would misread a newer recording; docs/format.md has the rules.
pub const FORMAT_VERSION: u32 = 1;

/// Key of the stream's metadata that holds [`FORMAT_VERSION`], and tells a recording from
/// any other Arrow stream.
pub const FORMAT_VERSION_KEY: &str = "cudasnoop.format_version";

/// Calls the macro `$each` with all columns, in the order of the table:
/// `name: type, "unit", "doc";`. Whoever calls it says what the types stand for there.
/// `Required` columns have a value in every row, `Optional` ones and `Text` may be null.
macro_rules! for_each_column {
    ($each:ident) => {
        $each! {
            seq: Required<u64>, "", "Position in the recording, from 0, without holes (a segment of a rolling one goes on from the one before); orders rows";
            ts: Required<u64>, "ns", "When the call was entered, or the fact learnt: CLOCK_MONOTONIC";
            duration: Optional<u64>, "ns", "From entry to return, probe cost included";
            pid: Required<u32>, "", "Process id in the recorder's pid namespace";
            tid: Required<u32>, "", "Thread id, likewise";
            kind: Names<Kind>, "", "What the row tells";
            api: Names<ApiId>, "", "The function; null in facts";
            layer: Names<Layer>, "", "The function's library";
            family: Names<Family>, "", "What the function is about";
            parent: Names<ApiId>, "", "The function inside which this call was made";
            result: Optional<i32>, "", "cudaError_t or CUresult; 0 is success";
            device: Optional<i32>, "", "Device ordinal as the process counts";
            source_device: Optional<i32>, "", "Device ordinal of a peer copy's source";
            location: Optional<u8>, "", "CUmemLocationType: 1 device, 2 host, 3 host NUMA node, 4 current node";
            location_id: Optional<i32>, "", "Device ordinal or NUMA node of the location";
            address: Optional<u64>, "", "The block, or a copy's destination";
            source: Optional<u64>, "", "A copy's source";
            size: Optional<i64>, "bytes", "Size; negative where PyTorch reports a free";
            offset: Optional<u64>, "bytes", "Into physical memory or a device variable";
            count: Optional<u64>, "", "Nodes of a graph, copies of a batch, elements of an array copy";
            copy_kind: Optional<u8>, "", "cudaMemcpyKind of a copy";
            stream: Optional<u64>, "", "Stream handle; 0 default, 1 legacy, 2 per thread";
            grid_x: Optional<u32>, "blocks", "Grid of a launch, x";
            grid_y: Optional<u32>, "blocks", "Grid of a launch, y";
            grid_z: Optional<u32>, "blocks", "Grid of a launch, z";
            block_x: Optional<u32>, "threads", "Block of a launch, x";
            block_y: Optional<u32>, "threads", "Block of a launch, y";
            block_z: Optional<u32>, "threads", "Block of a launch, z";
            shared_memory: Optional<u64>, "bytes", "Dynamic shared memory of a launch";
            handle: Optional<u64>, "", "What the call is about: kernel, graph exec, event, pool, physical memory, array...";
            related: Optional<u64>, "", "A second such thing: the graph of an exec, the pool of an allocation...";
            option: Optional<u64>, "", "Flags, mode, attribute or handle type, as the function has them";
            kernel: Optional<u32>, "", "Id of the launched kernel; a kernel fact defines it";
            caller: Optional<u32>, "", "Id of the module that called; a caller fact defines it";
            stack: Optional<u32>, "", "Id of the call stack; not recorded yet";
            allocated: Optional<u64>, "bytes", "PyTorch: allocated on the device after this event";
            reserved: Optional<u64>, "bytes", "PyTorch: reserved on the device after this event";
            device_free: Optional<u64>, "bytes", "Free on the device, as cudaMemGetInfo told";
            device_total: Optional<u64>, "bytes", "Device memory in all, likewise";
            flags: Required<u32>, "", "What could not be read or is not as usual";
            text: Text, "json", "A fact";
        }
    };
}
pub(crate) use for_each_column;

macro_rules! names {
    ($($name:ident: $type:ty, $unit:literal, $doc:literal;)*) => {
        /// The names of all columns, in the order of the table.
        pub const COLUMNS: &[&str] = &[$(stringify!($name)),*];
    };
}
for_each_column!(names);

/// The table that this build writes.
pub(crate) fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        macro_rules! fields {
            ($($name:ident: $type:ty, $unit:literal, $doc:literal;)*) => {
                vec![$(field::<$type>(stringify!($name), $unit, $doc)),*]
            };
        }
        let metadata = [
            (FORMAT_VERSION_KEY, FORMAT_VERSION.to_string()),
            ("cudasnoop.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("cudasnoop.clock", "CLOCK_MONOTONIC".to_owned()),
        ];
        Arc::new(Schema::new_with_metadata(
            for_each_column!(fields),
            metadata,
        ))
    });
    Arc::clone(&SCHEMA)
}

fn field<C: Column>(name: &str, unit: &str, doc: &str) -> Field {
    let unit = (!unit.is_empty()).then_some(("unit", unit));
    let metadata = unit.into_iter().chain([("doc", doc)]);
    Field::new(name, C::data_type(), C::NULLABLE).with_metadata(metadata.collect::<Metadata>())
}

/// A number type of the table.
pub trait Number: ArrowNativeType {
    /// The Arrow type of its columns.
    type Arrow: ArrowPrimitiveType<Native = Self>;
}

impl Number for u8 {
    type Arrow = types::UInt8Type;
}
impl Number for u16 {
    type Arrow = types::UInt16Type;
}
impl Number for u32 {
    type Arrow = types::UInt32Type;
}
impl Number for u64 {
    type Arrow = types::UInt64Type;
}
impl Number for i32 {
    type Arrow = types::Int32Type;
}
impl Number for i64 {
    type Arrow = types::Int64Type;
}

/// A number that says where in a dictionary a name is.
pub trait Key: Number<Arrow: ArrowDictionaryKeyType> + Into<usize> + From<u8> {}

impl Key for u8 {}
impl Key for u16 {}

/// A type that stands in the table by name: its columns are dictionaries, whose values are
/// fixed when a recording begins.
pub trait Named: Copy + Send + Sync + 'static {
    /// Whether a row may lack it.
    const NULLABLE: bool;

    /// The type of its keys.
    type Key: Key;

    /// All values that this build knows, by [`Named::key`].
    fn all() -> impl Iterator<Item = Self>;

    /// Its name, as recordings have it.
    fn name(self) -> &'static str;

    /// Its place in the dictionary.
    fn key(self) -> Self::Key;
}

impl Named for Kind {
    const NULLABLE: bool = false;
    type Key = u8;

    fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }

    fn name(self) -> &'static str {
        self.name()
    }

    fn key(self) -> u8 {
        self as u8
    }
}

impl Named for Layer {
    const NULLABLE: bool = true;
    type Key = u8;

    fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }

    fn name(self) -> &'static str {
        self.name()
    }

    fn key(self) -> u8 {
        self as u8
    }
}

impl Named for Family {
    const NULLABLE: bool = true;
    type Key = u8;

    fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }

    fn name(self) -> &'static str {
        self.name()
    }

    fn key(self) -> u8 {
        self as u8
    }
}

impl Named for ApiId {
    const NULLABLE: bool = true;
    type Key = u16;

    fn all() -> impl Iterator<Item = Self> {
        Self::all()
    }

    fn name(self) -> &'static str {
        self.api().map_or("", |api| api.name)
    }

    fn key(self) -> u16 {
        self.0
    }
}
