//! Batches as they are read: columns, and rows on demand.

use std::hint;
use std::ops::{Deref, Range};

use agent_common::{ApiId, Family, Layer, launch::Dimensions};
use arrow_array::cast::AsArray;
use arrow_array::types::UInt8Type;
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch, StringArray};
use arrow_buffer::{Buffer, ScalarBuffer};

use crate::schema::{Key, Named, Number, for_each_column};
use crate::{Event, Kind};

/// Bytes of a line of the processor's cache, on x86-64 and arm64.
const LINE: usize = 64;

/// A column in which every row has a value.
#[derive(Clone, Debug)]
pub struct Required<T: Number>(ScalarBuffer<T>);

impl<T: Number> Deref for Required<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// A column of numbers or nulls; all null where the recording lacks it.
#[derive(Clone, Debug)]
pub struct Optional<T: Number> {
    values: ScalarBuffer<T>,
    /// A bit for each row that has a value, the lowest first; `None` where all have.
    valid: Option<Buffer>,
}

impl<T: Number> Optional<T> {
    fn new(array: &PrimitiveArray<T::Arrow>) -> Self {
        Self {
            values: array.values().clone(),
            valid: array.nulls().map(|valid| valid.inner().sliced()),
        }
    }

    fn absent() -> Self {
        Self {
            values: Vec::new().into(),
            valid: None,
        }
    }

    /// The value of `row`.
    #[inline]
    pub fn get(&self, row: usize) -> Option<T> {
        // The bits of all columns stay in the processor's cache, the values do not: those of nulls
        // are not looked at.
        if let Some(valid) = &self.valid {
            let bits = valid.as_slice().get(row / 8)?;
            if bits >> (row % 8) & 1 == 0 {
                return None;
            }
        }
        self.values.get(row).copied()
    }
}

/// A column of names or nulls; all null where the recording lacks it.
#[derive(Clone, Debug)]
pub struct Names<T: Named> {
    keys: Optional<T::Key>,
    dictionary: StringArray,
    /// By key; `None` for a name that this build does not know.
    known: Vec<Option<T>>,
}

impl<T: Named> Names<T> {
    /// What `row` has; `None` where it has nothing, or a name that this build does not know.
    #[inline]
    pub fn get(&self, row: usize) -> Option<T> {
        *self.known.get(self.keys.get(row)?.into())?
    }

    /// The name that `row` has, known to this build or not.
    pub fn name(&self, row: usize) -> Option<&str> {
        let key: usize = self.keys.get(row)?.into();
        (key < self.dictionary.len()).then(|| self.dictionary.value(key))
    }
}

/// A column of texts or nulls.
#[derive(Clone, Debug)]
pub struct Text(Option<StringArray>);

impl Text {
    /// The text of `row`.
    pub fn get(&self, row: usize) -> Option<&str> {
        let texts = self.0.as_ref()?;
        (row < texts.len() && texts.is_valid(row)).then(|| texts.value(row))
    }

    /// The rows that have a text, in order, each with it.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &str)> {
        let rows = self.0.iter().flat_map(|texts| match texts.nulls() {
            Some(valid) => Box::new(valid.valid_indices()) as Box<dyn Iterator<Item = usize>>,
            None => Box::new(0..texts.len()),
        });
        rows.filter_map(|row| Some((row, self.get(row)?)))
    }
}

/// How a column comes out of a batch. An error says what is wrong.
trait Column: Sized {
    fn read(array: Option<&ArrayRef>) -> Result<Self, String>;

    /// Loads what some rows have; what comes back means nothing.
    fn touch(&self, rows: Range<usize>) -> u8;
}

impl<T: Number> Column for Required<T> {
    fn read(array: Option<&ArrayRef>) -> Result<Self, String> {
        let array = array.ok_or("is missing")?;
        let array = array
            .as_primitive_opt::<T::Arrow>()
            .ok_or("has another type")?;
        if array.null_count() > 0 {
            return Err("has nulls".to_owned());
        }
        Ok(Self(array.values().clone()))
    }

    fn touch(&self, rows: Range<usize>) -> u8 {
        touch(&self.0, rows)
    }
}

/// Loads a byte of each line of the processor's cache that values lie in.
fn touch<T: Number>(values: &ScalarBuffer<T>, rows: Range<usize>) -> u8 {
    let bytes = values.inner().as_slice();
    let place = |row: usize| (row * size_of::<T>()).min(bytes.len());
    let lines = bytes[place(rows.start)..place(rows.end)].iter();
    lines.step_by(LINE).fold(0, |all, byte| all ^ byte)
}

impl<T: Number> Column for Optional<T> {
    fn read(array: Option<&ArrayRef>) -> Result<Self, String> {
        let Some(array) = array else {
            return Ok(Self::absent());
        };
        let array = array.as_primitive_opt().ok_or("has another type")?;
        Ok(Self::new(array))
    }

    fn touch(&self, rows: Range<usize>) -> u8 {
        touch(&self.values, rows)
    }
}

impl<T: Named> Column for Names<T> {
    fn read(array: Option<&ArrayRef>) -> Result<Self, String> {
        let (keys, dictionary) = match array {
            Some(array) => read_keys(array).ok_or("has another type")?,
            None => (Optional::absent(), StringArray::new_null(0)),
        };
        // What lies beyond the reach of a key cannot be meant.
        let reach = 1 << (8 * size_of::<T::Key>());
        let all: Vec<T> = T::all().collect();
        let by_name = |(place, name)| {
            let is_it = |known: &T| Some(known.name()) == name;
            // Where this build has it, too, most often: each batch is asked.
            let same_place = all.get(place).copied().filter(is_it);
            same_place.or_else(|| all.iter().copied().find(is_it))
        };
        let names = dictionary.iter().take(reach);
        let known: Vec<_> = names.enumerate().map(by_name).collect();
        let column = Self {
            keys,
            dictionary,
            known,
        };
        if !T::NULLABLE && (0..column.keys.values.len()).any(|row| column.get(row).is_none()) {
            return Err("has values that are not of this format version".to_owned());
        }
        Ok(column)
    }

    fn touch(&self, rows: Range<usize>) -> u8 {
        self.keys.touch(rows)
    }
}

/// The keys and names of a column. Keys may be narrower than a name needs in this build: the
/// first recordings had bytes for functions, too.
fn read_keys<K: Key>(array: &ArrayRef) -> Option<(Optional<K>, StringArray)> {
    if let Some(array) = array.as_dictionary_opt::<K::Arrow>() {
        let names = array.values().as_string_opt()?;
        return Some((Optional::new(array.keys()), names.clone()));
    }
    let array = array.as_dictionary_opt::<UInt8Type>()?;
    let names = array.values().as_string_opt()?;
    let keys = Optional::new(array.keys());
    let keys = Optional {
        values: keys.values.iter().map(|key| K::from(*key)).collect(),
        valid: keys.valid,
    };
    Some((keys, names.clone()))
}

impl Column for Text {
    fn read(array: Option<&ArrayRef>) -> Result<Self, String> {
        let texts = array.map(|array| array.as_string_opt().ok_or("has another type"));
        Ok(Self(texts.transpose()?.cloned()))
    }

    /// Few rows have one.
    fn touch(&self, _rows: Range<usize>) -> u8 {
        0
    }
}

macro_rules! columns {
    ($($name:ident: $type:ty, $unit:literal, $doc:literal;)*) => {
        /// Some thousand rows of a recording.
        ///
        /// Columns are fast, one by one; [`EventBatch::event`] puts a row together.
        #[derive(Clone, Debug)]
        pub struct EventBatch {
            rows: usize,
            $($name: $type,)*
        }

        impl EventBatch {
            /// From a batch whose columns have the types of the schema, or are missing.
            pub(crate) fn read(batch: &RecordBatch) -> Result<Self, String> {
                Ok(Self {
                    rows: batch.num_rows(),
                    $($name: Column::read(batch.column_by_name(stringify!($name)))
                        .map_err(|what| format!("column {} {what}", stringify!($name)))?,)*
                })
            }

            /// Brings rows into the processor's cache, column by column. Processors see ahead of who
            /// reads one stream of memory, not of who reads a batch's forty at once, as a loop over
            /// rows does: each line would be waited for.
            pub fn preload(&self, rows: Range<usize>) {
                let mut all = 0;
                $(all ^= self.$name.touch(rows.clone());)*
                hint::black_box(all);
            }

            $(
                #[doc = concat!("The column `", stringify!($name), "`: ", $doc, ".")]
                #[inline]
                pub fn $name(&self) -> &$type {
                    &self.$name
                }
            )*
        }
    };
}

for_each_column!(columns);

impl EventBatch {
    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The rows, one by one.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Event> + '_ {
        (0..self.rows).map(|row| self.event(row))
    }

    /// One row. Panics where `row` is not below [`EventBatch::len`].
    pub fn event(&self, row: usize) -> Event {
        // Exhaustive: a new column must be read, or named here as derived.
        let Self {
            rows: _,
            seq,
            ts,
            duration,
            pid,
            tid,
            kind,
            api,
            layer: _,
            family: _,
            parent,
            result,
            device,
            source_device,
            location,
            location_id,
            address,
            source,
            size,
            offset,
            count,
            copy_kind,
            stream,
            grid_x,
            grid_y,
            grid_z,
            block_x,
            block_y,
            block_z,
            shared_memory,
            handle,
            related,
            option,
            kernel,
            caller,
            stack,
            allocated,
            reserved,
            device_free,
            device_total,
            flags,
            text,
        } = self;
        let dimensions = || {
            Some(Dimensions {
                grid: [grid_x.get(row)?, grid_y.get(row)?, grid_z.get(row)?],
                block: [block_x.get(row)?, block_y.get(row)?, block_z.get(row)?],
            })
        };
        Event {
            seq: seq[row],
            timestamp: ts[row],
            duration: duration.get(row),
            pid: pid[row],
            tid: tid[row],
            kind: kind.get(row).expect("every row's kind was checked"),
            api: api.get(row),
            parent: parent.get(row),
            result: result.get(row),
            device: device.get(row),
            source_device: source_device.get(row),
            location: location.get(row),
            location_id: location_id.get(row),
            address: address.get(row),
            source: source.get(row),
            size: size.get(row),
            offset: offset.get(row),
            count: count.get(row),
            copy_kind: copy_kind.get(row),
            stream: stream.get(row),
            dimensions: dimensions(),
            shared_memory: shared_memory.get(row),
            handle: handle.get(row),
            related: related.get(row),
            option: option.get(row),
            kernel: kernel.get(row),
            caller: caller.get(row),
            stack: stack.get(row),
            allocated: allocated.get(row),
            reserved: reserved.get(row),
            device_free: device_free.get(row),
            device_total: device_total.get(row),
            flags: flags[row],
            text: text.get(row).map(str::to_owned),
        }
    }
}
