//! Reading: bytes in, batches out. All input is taken as hostile.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::Buffer;
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow_ipc::{CompressionType, MessageHeader, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};

use crate::message::{BODY_LIMIT, Cause, End, Message, Messages, Next};
use crate::schema::schema;
use crate::{EventBatch, FORMAT_VERSION, FORMAT_VERSION_KEY};

/// Most bytes of a dictionary, decompressed.
const DICTIONARY_LIMIT: usize = 1 << 20;

/// Why a recording could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The input failed.
    #[error("cannot read the recording beyond byte {at}: {source}")]
    Io {
        /// Bytes read before.
        at: u64,
        /// What it said.
        source: io::Error,
    },
    /// The input is something else.
    #[error("not a cudasnoop recording: {0}")]
    NotARecording(String),
    /// The input is of a later format, which this build would misread.
    #[error(
        "the recording has format version {found}, and this cudasnoop reads up to \
         {FORMAT_VERSION}: use the version that made it, or a later one"
    )]
    NewerFormat {
        /// Its version.
        found: u32,
    },
}

/// Reads a recording, batch by batch.
///
/// A recording that was cut short is no error: it has batches up to the cut, and then
/// [`Reader::end`] says what became of the rest.
#[derive(Debug)]
pub struct Reader<R> {
    messages: Messages<R>,
    header: Message,
    /// Of the whole stream, unknown columns included.
    schema: SchemaRef,
    /// Where the columns that this build knows are in it.
    known: Vec<usize>,
    /// Which of a batch's buffers hold numbers that the decoder takes for whole ones.
    numbers: Vec<Numbers>,
    dictionaries: HashMap<i64, ArrayRef>,
    /// Bytes of whole messages.
    whole: u64,
    end: Option<End>,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut messages = Messages::new(input);
        let not_a_recording = |what: &str| Err(ReadError::NotARecording(what.to_owned()));
        let header = match next(&mut messages)? {
            Next::Message(message) => message,
            Next::End(None) => return not_a_recording("it holds nothing but an end marker"),
            Next::End(Some(Cause::NoEndMarker)) => return not_a_recording("it is empty"),
            Next::End(Some(Cause::Torn)) => return not_a_recording("it ends within its header"),
            Next::End(Some(Cause::Damaged(what))) => return not_a_recording(&what),
        };
        let message = header.verified.as_ref();
        let Some(schema) = message.header_as_schema() else {
            return not_a_recording("it does not begin with an Arrow schema");
        };
        if !schema.endianness().equals_to_target_endianness() {
            return not_a_recording("its byte order is not this machine's");
        }
        let schema = arrow_ipc::convert::try_fb_to_schema(schema)
            .map_err(|error| ReadError::NotARecording(error.to_string()))?;
        let known = check_schema(&schema)?;
        let numbers = numbers(&schema)?;
        let whole = header.len();
        let schema = Arc::new(schema);
        let dictionaries = HashMap::new();
        Ok(Self {
            messages,
            header,
            schema,
            known,
            numbers,
            dictionaries,
            whole,
            end: None,
        })
    }

    /// Reads only `columns`, and those that have a value in every row: the others are null in
    /// all batches. Decompressing columns is most of what reading costs.
    #[must_use]
    pub fn select(mut self, columns: &[&str]) -> Self {
        let fields = self.schema.fields();
        self.known.retain(|&position| {
            let field = &fields[position];
            !field.is_nullable() || columns.contains(&field.name().as_str())
        });
        self
    }

    /// How the recording ended; `None` while there may be more batches.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// A value of the stream's metadata (docs/format.md).
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.schema.metadata.get(key).map(String::as_str)
    }

    /// The first message, which [`Reader::new`] has read.
    pub(crate) fn header(&self) -> &Message {
        &self.header
    }

    /// The next message, with the batch where it is one; `None` once [`Reader::end`] is known.
    pub(crate) fn next_message(
        &mut self,
    ) -> Result<Option<(Message, Option<EventBatch>)>, ReadError> {
        if self.end.is_some() {
            return Ok(None);
        }
        let message = match next(&mut self.messages)? {
            Next::Message(message) => message,
            Next::End(None) => {
                self.end = Some(End::Complete);
                return Ok(None);
            }
            Next::End(Some(cause)) => return Ok(self.truncate(cause)),
        };
        match self.decode(&message) {
            Ok(batch) => {
                self.whole += message.len();
                Ok(Some((message, batch)))
            }
            Err(what) => Ok(self.truncate(Cause::Damaged(what))),
        }
    }

    /// Bytes of the input that are no whole message, those that were not read yet included.
    pub(crate) fn bytes_beyond_the_end(&mut self) -> Result<u64, ReadError> {
        let at = self.messages.taken;
        self.messages
            .drain()
            .map_err(|source| ReadError::Io { at, source })?;
        let end_marker = if self.end == Some(End::Complete) {
            8
        } else {
            0
        };
        Ok(self.messages.taken - self.whole - end_marker)
    }

    /// Bytes of whole messages, up to now.
    pub(crate) fn whole(&self) -> u64 {
        self.whole
    }

    fn truncate<T>(&mut self, cause: Cause) -> Option<T> {
        self.end = Some(End::Truncated {
            whole: self.whole,
            cause,
        });
        None
    }

    /// The batch in a message; `None` for a dictionary, which is kept. An error says what is
    /// wrong with the message.
    fn decode(&mut self, message: &Message) -> Result<Option<EventBatch>, String> {
        let Message { verified, body, .. } = message;
        let message = verified.as_ref();
        let version = message.version();
        match message.header_type() {
            MessageHeader::DictionaryBatch => {
                let dictionary = message
                    .header_as_dictionary_batch()
                    .ok_or("no dictionary")?;
                if dictionary.isDelta() {
                    return Err("a dictionary that grows".to_owned());
                }
                let values = dictionary.data().ok_or("no values")?;
                // Texts alone: validity, offsets, bytes.
                let offsets = Numbers::offsets(1);
                check_buffers(values, body, DICTIONARY_LIMIT, &[offsets])?;
                read_dictionary(
                    body,
                    dictionary,
                    &self.schema,
                    &mut self.dictionaries,
                    &version,
                )
                .map_err(|error| error.to_string())?;
                Ok(None)
            }
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().ok_or("no batch")?;
                check_buffers(batch, body, BODY_LIMIT, &self.numbers)?;
                let schema = Arc::clone(&self.schema);
                let columns = self.columns_with_values(batch);
                RecordBatchDecoder::try_new(body, batch, schema, &self.dictionaries, &version)
                    .and_then(|batch| batch.with_projection(Some(&columns)).read_record_batch())
                    .map_err(|error| error.to_string())
                    .and_then(|batch| EventBatch::read(&batch).map(Some))
            }
            other => Err(format!(
                "a message that a recording does not have: {other:?}"
            )),
        }
    }

    /// Of the known columns, those that are not null in all of a batch: most functions have
    /// nothing to say in most columns, and to decompress nulls takes time, too.
    fn columns_with_values(&self, batch: RecordBatch<'_>) -> Vec<usize> {
        let fields = self.schema.fields();
        let is_null = |position: usize| {
            let node = batch.nodes().filter(|nodes| position < nodes.len());
            node.map(|nodes| nodes.get(position))
                .is_some_and(|node| node.null_count() == node.length())
        };
        let known = self.known.iter().copied();
        known
            .filter(|&position| !fields[position].is_nullable() || !is_null(position))
            .collect()
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<EventBatch, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_message().transpose()? {
                Ok((_, Some(batch))) => return Some(Ok(batch)),
                Ok((_, None)) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn next<R: Read>(messages: &mut Messages<R>) -> Result<Next, ReadError> {
    messages.next().map_err(|source| ReadError::Io {
        at: messages.taken,
        source,
    })
}

/// The positions of the columns that this build knows, ascending.
fn check_schema(found: &Schema) -> Result<Vec<usize>, ReadError> {
    let not_a_recording = |what: String| Err(ReadError::NotARecording(what));
    let Some(version) = found.metadata.get(FORMAT_VERSION_KEY) else {
        return not_a_recording(format!(
            "an Arrow stream whose metadata lack {FORMAT_VERSION_KEY}"
        ));
    };
    match version.parse() {
        Ok(1..=FORMAT_VERSION) => {}
        Ok(version) if version > FORMAT_VERSION => {
            return Err(ReadError::NewerFormat { found: version });
        }
        Ok(_) | Err(_) => return not_a_recording(format!("its format version is {version:?}")),
    }
    let mut known = Vec::new();
    for column in schema().fields() {
        let name = column.name();
        match found.column_with_name(name) {
            Some((position, field)) if is_readable(field.data_type(), column.data_type()) => {
                known.push(position);
            }
            Some((_, field)) => {
                let (is, should) = (field.data_type(), column.data_type());
                return not_a_recording(format!("column {name} is {is} and should be {should}"));
            }
            None if column.is_nullable() => {}
            None => return not_a_recording(format!("column {name} is missing")),
        }
    }
    known.sort_unstable();
    Ok(known)
}

/// Whether a column of type `found` can be read for one of type `expected`: names whose keys are
/// bytes can, where this build has wider ones.
fn is_readable(found: &DataType, expected: &DataType) -> bool {
    match (found, expected) {
        (DataType::Dictionary(key, names), DataType::Dictionary(_, expected))
            if **key == DataType::UInt8 =>
        {
            names == expected
        }
        _ => found == expected,
    }
}

/// A buffer that the decoder takes for numbers of `width` bytes, and panics where it ends in a
/// part of one.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    /// Its position among the buffers of a batch.
    buffer: usize,
    width: usize,
}

impl Numbers {
    /// Where texts begin and end.
    const fn offsets(buffer: usize) -> Self {
        let width = size_of::<i32>();
        Self { buffer, width }
    }
}

/// The offsets of the column `text`, and the keys of dictionaries.
fn numbers(schema: &Schema) -> Result<Vec<Numbers>, ReadError> {
    let mut position = 0;
    let mut numbers = Vec::new();
    for field in schema.fields() {
        let buffer = position + 1;
        position += match field.data_type() {
            DataType::Utf8 => {
                numbers.push(Numbers::offsets(buffer));
                3
            }
            DataType::Dictionary(key, _) => {
                let width = key.primitive_width().unwrap_or(1);
                numbers.push(Numbers { buffer, width });
                2
            }
            DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary => 3,
            DataType::Boolean | DataType::FixedSizeBinary(_) => 2,
            number if number.is_primitive() => 2,
            nested => {
                let what = format!("column {} is nested ({nested})", field.name());
                return Err(ReadError::NotARecording(what));
            }
        };
    }
    Ok(numbers)
}

/// Checks what the decoder takes for granted, and panics without: that buffers lie within the
/// body, that they decompress to at most `limit` bytes, and that `numbers` are whole.
fn check_buffers(
    batch: RecordBatch<'_>,
    body: &Buffer,
    limit: usize,
    numbers: &[Numbers],
) -> Result<(), String> {
    let is_compressed = batch.compression().is_some();
    if batch
        .compression()
        .is_some_and(|method| method.codec() != CompressionType::ZSTD)
    {
        return Err("compressed by other means than zstd".to_owned());
    }
    let mut total = 0_usize;
    for (position, buffer) in batch.buffers().into_iter().flatten().enumerate() {
        let start = usize::try_from(buffer.offset()).map_err(|_| "a negative offset")?;
        let length = usize::try_from(buffer.length()).map_err(|_| "a negative length")?;
        let bytes = start
            .checked_add(length)
            .and_then(|end| body.get(start..end))
            .ok_or("a buffer beyond the body")?;
        let holds = if is_compressed && !bytes.is_empty() {
            let claim = bytes
                .first_chunk()
                .ok_or("a buffer too short for its length")?;
            match i64::from_le_bytes(*claim) {
                // Not compressed after all.
                -1 => Some(length - size_of_val(claim)),
                claim => usize::try_from(claim).ok(),
            }
        } else {
            Some(length)
        };
        let holds = holds
            .filter(|holds| holds.checked_add(total).is_some_and(|total| total <= limit))
            .ok_or("a buffer that claims too many bytes")?;
        total += holds;
        let is_cut =
            |numbers: &Numbers| numbers.buffer == position && !holds.is_multiple_of(numbers.width);
        if numbers.iter().any(is_cut) {
            return Err("a number is cut".to_owned());
        }
    }
    Ok(())
}
