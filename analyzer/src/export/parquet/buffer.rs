//! The rows of a column until their row group is written.

use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedColumnWriter;
use rustc_hash::FxHashMap;

use crate::export::columns::{Form, Value};

/// Distinct texts of a row group that are kept to be used again.
const SHARED: usize = 65_536;

/// Texts that came before in the same row group: most come again.
#[derive(Debug, Default)]
pub(super) struct Texts(FxHashMap<String, ByteArray>);

impl Texts {
    fn get(&mut self, text: &str) -> ByteArray {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let array = ByteArray::from(text);
        if self.0.len() < SHARED {
            self.0.insert(text.to_owned(), array.clone());
        }
        array
    }
}

/// Values of one column, and which rows have one.
#[derive(Debug)]
pub(super) struct Buffer {
    /// 1 for a row that has a value, 0 for null.
    levels: Vec<i16>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Bits32(Vec<i32>),
    Bits64(Vec<i64>),
    Texts(Vec<ByteArray>),
}

impl Buffer {
    pub(super) const fn new(form: Form) -> Self {
        Self {
            levels: Vec::new(),
            values: match form {
                Form::Small | Form::Signed => Values::Bits32(Vec::new()),
                Form::Number | Form::Size | Form::Address | Form::Time => {
                    Values::Bits64(Vec::new())
                }
                Form::Text => Values::Texts(Vec::new()),
            },
        }
    }

    /// Appends a value of the column's form, or null. Unsigned numbers have the bits of signed
    /// ones: the schema says what they are.
    pub(super) fn push(&mut self, value: Option<Value<'_>>, texts: &mut Texts) {
        let is_taken = match (&mut self.values, value) {
            (Values::Bits32(values), Some(Value::Small(number))) => {
                values.push(number.cast_signed());
                true
            }
            (Values::Bits32(values), Some(Value::Signed(number))) => {
                values.push(number);
                true
            }
            (Values::Bits64(values), Some(Value::Number(number) | Value::Address(number))) => {
                values.push(number.cast_signed());
                true
            }
            (Values::Bits64(values), Some(Value::Size(bytes))) => {
                values.push(bytes);
                true
            }
            (Values::Bits64(values), Some(Value::Time(time))) => {
                values.push((time / 1000).cast_signed());
                true
            }
            (Values::Texts(values), Some(Value::Text(text))) => {
                values.push(texts.get(text));
                true
            }
            (Values::Bits32(_) | Values::Bits64(_) | Values::Texts(_), _) => false,
        };
        self.levels.push(is_taken.into());
    }

    /// Writes and forgets all.
    pub(super) fn write(
        &mut self,
        column: &mut SerializedColumnWriter<'_>,
    ) -> Result<(), ParquetError> {
        let levels = Some(&self.levels[..]);
        match &mut self.values {
            Values::Bits32(values) => {
                column
                    .typed::<Int32Type>()
                    .write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Bits64(values) => {
                column
                    .typed::<Int64Type>()
                    .write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Texts(values) => {
                column
                    .typed::<ByteArrayType>()
                    .write_batch(values, levels, None)?;
                values.clear();
            }
        }
        self.levels.clear();
        Ok(())
    }
}
