//! The columns of a batch while it is built.
//!
//! Under a null stands the column's last value, not zero: Arrow gives it no meaning, and zstd
//! takes a column that does not jump to zero and back in less time and less space.

use std::hint::select_unpredictable;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::{ArrayRef, ArrowPrimitiveType, DictionaryArray, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;

use crate::schema::{Named, Number};

/// Most rows in a batch, a multiple of [`BLOCK`]. A quarter of it costs 14 % more bytes and
/// more CPU time; four times as much saves 4 %, for four times the memory
/// (`cargo run --release -p trace --example throughput`).
pub(crate) const ROWS: usize = 16_384;

/// Rows that are appended at a time: one word of validity bits.
pub(crate) const BLOCK: usize = 64;

/// One column. All but the last block appended between two calls of `take` are full.
pub(crate) trait Column {
    /// Whether a row may lack a value.
    const NULLABLE: bool;

    /// The Arrow type.
    fn data_type() -> DataType;

    /// An empty one.
    fn new() -> Self;

    /// The rows appended since the last call.
    fn take(&mut self) -> ArrayRef;
}

/// Numbers, one in each row.
#[derive(Debug)]
pub(crate) struct Required<T>(Vec<T>);

impl<T: Number> Required<T> {
    /// Appends a block.
    pub(crate) fn extend(&mut self, values: impl Iterator<Item = T>) {
        self.0.extend(values);
    }

    fn take_values(&mut self) -> ScalarBuffer<T> {
        std::mem::replace(&mut self.0, Vec::with_capacity(ROWS)).into()
    }
}

impl<T: Number> Column for Required<T> {
    const NULLABLE: bool = false;

    fn data_type() -> DataType {
        T::Arrow::DATA_TYPE
    }

    fn new() -> Self {
        Self(Vec::with_capacity(ROWS))
    }

    fn take(&mut self) -> ArrayRef {
        Arc::new(PrimitiveArray::<T::Arrow>::new(self.take_values(), None))
    }
}

/// Numbers, or nulls.
#[derive(Debug)]
pub(crate) struct Optional<T> {
    values: Required<T>,
    last: T,
    valid: Validity,
}

impl<T: Number> Optional<T> {
    /// Appends a block.
    pub(crate) fn extend(&mut self, values: impl Iterator<Item = Option<T>>) {
        let mut last = self.last;
        let mut valid = Block::default();
        self.values.extend(values.map(|value| {
            valid.push(value.is_some());
            // Calls of all kinds alternate: a branch would be mispredicted too often.
            last = select_unpredictable(value.is_some(), value.unwrap_or_default(), last);
            last
        }));
        self.last = last;
        self.valid.append(&valid);
    }

    fn take_array(&mut self) -> PrimitiveArray<T::Arrow> {
        let values = self.values.take_values();
        let valid = self.valid.take(values.len());
        PrimitiveArray::new(values, valid)
    }
}

impl<T: Number> Column for Optional<T> {
    const NULLABLE: bool = true;

    fn data_type() -> DataType {
        T::Arrow::DATA_TYPE
    }

    fn new() -> Self {
        Self {
            values: Required::new(),
            last: T::default(),
            valid: Validity::new(),
        }
    }

    fn take(&mut self) -> ArrayRef {
        Arc::new(self.take_array())
    }
}

/// Keys into the names of `T`, or nulls.
#[derive(Debug)]
pub(crate) struct Names<T: Named> {
    keys: Optional<T::Key>,
    /// The same array in each batch, so that a recording has it once.
    dictionary: ArrayRef,
    named: PhantomData<T>,
}

impl<T: Named> Names<T> {
    /// Appends a block.
    pub(crate) fn extend(&mut self, values: impl Iterator<Item = Option<T>>) {
        self.keys.extend(values.map(|value| value.map(T::key)));
    }
}

impl<T: Named> Column for Names<T> {
    const NULLABLE: bool = T::NULLABLE;

    fn data_type() -> DataType {
        let keys = <T::Key as Number>::Arrow::DATA_TYPE;
        DataType::Dictionary(Box::new(keys), Box::new(DataType::Utf8))
    }

    fn new() -> Self {
        let names = StringArray::from_iter_values(T::all().map(T::name));
        Self {
            keys: Optional::new(),
            dictionary: Arc::new(names),
            named: PhantomData,
        }
    }

    fn take(&mut self) -> ArrayRef {
        let dictionary = Arc::clone(&self.dictionary);
        Arc::new(DictionaryArray::<<T::Key as Number>::Arrow>::new(
            self.keys.take_array(),
            dictionary,
        ))
    }
}

/// Texts, or nulls.
#[derive(Debug)]
pub(crate) struct Text {
    bytes: Vec<u8>,
    /// Where each row's text ends.
    ends: Vec<i32>,
    valid: Validity,
}

impl Text {
    /// Appends a block. A batch must stay below 2 GiB of text.
    pub(crate) fn extend<'a>(&mut self, texts: impl Iterator<Item = Option<&'a str>>) {
        let mut valid = Block::default();
        for text in texts {
            valid.push(text.is_some());
            self.bytes
                .extend_from_slice(text.unwrap_or_default().as_bytes());
            self.ends
                .push(i32::try_from(self.bytes.len()).unwrap_or(i32::MAX));
        }
        self.valid.append(&valid);
    }
}

impl Column for Text {
    const NULLABLE: bool = true;

    fn data_type() -> DataType {
        DataType::Utf8
    }

    fn new() -> Self {
        Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(ROWS),
            valid: Validity::new(),
        }
    }

    fn take(&mut self) -> ArrayRef {
        let Self { bytes, ends, valid } = std::mem::replace(self, Self::new());
        let valid = { valid }.take(ends.len());
        let offsets = std::iter::once(0).chain(ends).collect();
        Arc::new(StringArray::new(
            OffsetBuffer::new(offsets),
            Buffer::from(bytes),
            valid,
        ))
    }
}

/// One bit per row: whether it has a value.
#[derive(Debug)]
struct Validity(Vec<u64>);

/// The bits of a block.
#[derive(Default)]
struct Block {
    bits: u64,
    rows: u32,
}

impl Block {
    fn push(&mut self, is_valid: bool) {
        self.bits |= u64::from(is_valid) << self.rows;
        self.rows += 1;
    }
}

impl Validity {
    fn new() -> Self {
        Self(Vec::with_capacity(ROWS / BLOCK))
    }

    fn append(&mut self, block: &Block) {
        self.0.push(block.bits.to_le());
    }

    /// `None` where all rows have a value.
    fn take(&mut self, rows: usize) -> Option<NullBuffer> {
        let words = std::mem::replace(&mut self.0, Vec::with_capacity(ROWS / BLOCK));
        let valid = NullBuffer::new(BooleanBuffer::new(words.into(), 0, rows));
        (valid.null_count() > 0).then_some(valid)
    }
}
