//! Recordings of other versions, and outputs that fail.

use std::io::{self, Read, Write};
use std::sync::Arc;

use agent_common::Layer;
use arrow_array::types::UInt8Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, ListArray, RecordBatch, StringArray,
    UInt8Array, UInt32Array,
};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema};
use trace::{
    Cause, End, Event, FORMAT_VERSION_KEY, ReadError, Reader, RepairError, WriteError, Writer,
    repair,
};

use crate::samples::{Recording, launch, malloc, read};

/// A recording with one batch as another version may have made it: `change` gets its
/// columns and metadata.
fn changed(change: impl Fn(&mut Vec<(Field, ArrayRef)>, &mut Vec<(String, String)>)) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.push(&launch()).unwrap();
    writer.push(&malloc()).unwrap();
    let recording = writer.finish().unwrap();
    let batch = StreamReader::try_new(&*recording, None)
        .unwrap()
        .next()
        .unwrap()
        .unwrap();

    let schema = batch.schema();
    let fields = schema.fields().iter().map(|field| field.as_ref().clone());
    let mut columns = fields.zip(batch.columns().iter().cloned()).collect();
    let mut metadata = schema
        .metadata
        .iter()
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    change(&mut columns, &mut metadata);

    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let schema = Arc::new(Schema::new_with_metadata(
        fields,
        arrow_schema::Metadata::from_iter(metadata),
    ));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn replace(columns: &mut [(Field, ArrayRef)], name: &str, array: ArrayRef) {
    let column = columns
        .iter_mut()
        .find(|(field, _)| field.name() == name)
        .unwrap();
    let field = Field::new(name, array.data_type().clone(), array.null_count() > 0);
    *column = (field, array);
}

fn version(metadata: &mut [(String, String)]) -> &mut String {
    &mut metadata
        .iter_mut()
        .find(|(key, _)| key == FORMAT_VERSION_KEY)
        .unwrap()
        .1
}

fn assert_refused(bytes: &[u8], why: &str) {
    let error = Reader::new(bytes).unwrap_err();
    assert!(matches!(error, ReadError::NotARecording(_)), "{error}");
    assert!(error.to_string().contains(why), "{error}");
}

#[test]
fn a_later_minor_version_is_read() {
    let bytes = changed(|columns, _| {
        let floats = Arc::new(Float64Array::from(vec![1.0, 2.0])) as ArrayRef;
        columns.insert(
            0,
            (Field::new("temperature", DataType::Float64, false), floats),
        );
        let notes = Arc::new(StringArray::from(vec!["warm", ""])) as ArrayRef;
        columns.insert(9, (Field::new("note", DataType::Utf8, true), notes));
        columns.reverse();
    });
    let (events, reader) = read(&bytes);
    assert_eq!(events, [launch(), Event { seq: 1, ..malloc() }]);
    assert_eq!(reader.end(), Some(&End::Complete));
}

#[test]
fn an_earlier_minor_version_is_read() {
    let bytes = changed(|columns, _| {
        columns.retain(|(field, _)| !["size", "api", "text", "grid_y"].contains(&&**field.name()));
    });
    let (events, _) = read(&bytes);
    let earlier = |event| Event {
        size: None,
        api: None,
        dimensions: None,
        ..event
    };
    assert_eq!(
        events,
        [
            earlier(launch()),
            Event {
                seq: 1,
                ..earlier(malloc())
            }
        ]
    );
}

#[test]
fn an_unknown_function_keeps_its_name() {
    let bytes = changed(|columns, _| {
        let names = StringArray::from(vec!["cudaMalloc", "cudaTeleport"]);
        let keys = UInt8Array::from(vec![1, 0]);
        let apis = DictionaryArray::<UInt8Type>::new(keys, Arc::new(names));
        replace(columns, "api", Arc::new(apis));
    });
    // With keys of one byte, as the first recordings had them.
    let batch = Reader::new(&*bytes).unwrap().next().unwrap().unwrap();
    assert_eq!(
        (batch.api().get(0), batch.api().name(0)),
        (None, Some("cudaTeleport"))
    );
    assert_eq!(
        batch.event(1).api.unwrap().api().unwrap().name,
        "cudaMalloc"
    );
    assert_eq!(batch.layer().get(0), Some(Layer::Runtime));
}

#[test]
fn other_tables_are_refused() {
    let other = changed(|_, metadata| metadata.clear());
    assert_refused(&other, FORMAT_VERSION_KEY);

    let newer = changed(|_, metadata| *version(metadata) = "2".to_owned());
    let error = Reader::new(&*newer).unwrap_err();
    assert!(
        matches!(error, ReadError::NewerFormat { found: 2 }),
        "{error}"
    );

    for nonsense in ["0", "-1", "one", ""] {
        let bytes = changed(|_, metadata| *version(metadata) = nonsense.to_owned());
        assert_refused(&bytes, "format version");
    }

    let bytes = changed(|columns, _| columns.retain(|(field, _)| field.name() != "ts"));
    assert_refused(&bytes, "column ts is missing");

    let bytes = changed(|columns, _| {
        replace(columns, "ts", Arc::new(UInt32Array::from(vec![1, 2])));
    });
    assert_refused(&bytes, "column ts is UInt32");

    let bytes = changed(|columns, _| {
        let lists = ListArray::from_iter_primitive::<UInt8Type, _, _>([Some([Some(1)]), None]);
        let field = Field::new("frames", lists.data_type().clone(), true);
        columns.push((field, Arc::new(lists)));
    });
    assert_refused(&bytes, "column frames is nested");
}

#[test]
fn batches_that_break_the_rules_are_no_batches() {
    let unknown_kind = changed(|columns, _| {
        let kinds: DictionaryArray<UInt8Type> = ["call", "miracle"].into_iter().collect();
        replace(columns, "kind", Arc::new(kinds));
    });
    let nulls = changed(|columns, _| {
        replace(
            columns,
            "pid",
            Arc::new(UInt32Array::from(vec![Some(1), None])),
        );
    });
    for bytes in [unknown_kind, nulls] {
        let (events, reader) = read(&bytes);
        assert_eq!(events, []);
        let Some(End::Truncated {
            cause: Cause::Damaged(what),
            ..
        }) = reader.end()
        else {
            panic!("{:?}", reader.end());
        };
        assert!(what.starts_with("column "), "{what}");
    }
}

/// Takes some bytes, counts the pieces, then fails.
#[derive(Debug)]
struct FullDisk {
    room: usize,
    pieces: usize,
    bytes: Vec<u8>,
}

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pieces += 1;
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        self.bytes.extend(&bytes[..taken]);
        if taken == 0 {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(taken)
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn each_batch_is_written_in_one_piece() {
    let disk = FullDisk {
        room: usize::MAX,
        pieces: 0,
        bytes: Vec::new(),
    };
    let mut writer = Writer::new(disk).unwrap();
    for _ in 0..3 {
        writer.push(&launch()).unwrap();
        writer.flush().unwrap();
        writer.flush().unwrap();
    }
    let disk = writer.finish().unwrap();
    // The header, three batches, the end marker.
    assert_eq!(disk.pieces, 5);
}

#[test]
fn nothing_follows_a_batch_that_was_not_written_whole() {
    let recording = Recording::new();
    let (first, _) = recording.batches[0];
    let disk = FullDisk {
        room: first + 100,
        pieces: 0,
        bytes: Vec::new(),
    };
    let mut disk = disk;
    let mut writer = Writer::new(&mut disk).unwrap();
    writer.push(&launch()).unwrap();
    writer.push(&malloc()).unwrap();
    writer.flush().unwrap();
    writer.push(&launch()).unwrap();
    let error = writer.flush().unwrap_err();
    assert!(
        matches!(error, WriteError::Io { written, .. } if written == first as u64),
        "{error}"
    );
    writer.push(&launch()).unwrap();
    let error = writer.finish().unwrap_err();
    assert!(
        matches!(error, WriteError::Cut { written } if written == first as u64),
        "{error}"
    );

    let (events, _) = read(&disk.bytes);
    assert_eq!(events, [launch(), Event { seq: 1, ..malloc() }]);
    let error = repair(
        &*disk.bytes,
        FullDisk {
            room: 0,
            pieces: 0,
            bytes: Vec::new(),
        },
    );
    assert!(matches!(error, Err(RepairError::Write(_))));
}

/// Fails where the bytes end.
struct BadSector<'a>(&'a [u8]);

impl Read for BadSector<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 if !buffer.is_empty() => Err(io::ErrorKind::Other.into()),
            read => Ok(read),
        }
    }
}

#[test]
fn an_input_that_fails_is_an_error_and_no_truncation() {
    let recording = Recording::new();
    let (first, events) = &recording.batches[0];
    let mut reader = Reader::new(BadSector(&recording.bytes[..first + 20])).unwrap();
    assert_eq!(
        reader.next().unwrap().unwrap().iter().collect::<Vec<_>>(),
        *events
    );
    assert!(matches!(reader.next(), Some(Err(ReadError::Io { .. }))));
    assert_eq!(reader.end(), None);
}
