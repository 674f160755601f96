//! The format as a promise: a change of it, or of what is written about it, is noticed.

use std::fmt::Write;

use arrow_array::cast::AsArray;
use arrow_ipc::MessageHeader;
use arrow_ipc::reader::StreamReader;
use arrow_schema::{DataType, Schema};
use trace::{Kind, Writer};

use crate::samples::{Recording, facts, launch};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/schema.txt");
const DOCS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/format.md"));

fn schema() -> Schema {
    let recording = Writer::new(Vec::new()).unwrap().finish().unwrap();
    StreamReader::try_new(&*recording, None)
        .unwrap()
        .schema()
        .as_ref()
        .clone()
}

/// The types as docs/format.md names them.
fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Dictionary(key, value) => {
            format!("dictionary<{}, {}>", type_name(key), type_name(value))
        }
        other => other.to_string().to_lowercase(),
    }
}

/// To change the format on purpose: follow the rules in docs/format.md, then run the test
/// with `UPDATE_GOLDEN=1`.
#[test]
fn the_schema_is_the_golden_one() {
    let schema = schema();
    let mut text = String::new();
    for (key, value) in schema
        .metadata
        .iter()
        .filter(|(key, _)| *key != "cudasnoop.version")
    {
        writeln!(text, "{key} = {value}").unwrap();
    }
    for field in schema.fields() {
        let null = if field.is_nullable() {
            ", nullable"
        } else {
            ""
        };
        let unit = field
            .metadata()
            .get("unit")
            .map_or(String::new(), |unit| format!(", {unit}"));
        writeln!(
            text,
            "{}: {}{null}{unit}",
            field.name(),
            type_name(field.data_type())
        )
        .unwrap();
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(GOLDEN, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(GOLDEN).unwrap());
}

#[test]
fn each_dictionary_is_written_once() {
    let recording = Recording::new();
    let mut reader = StreamReader::try_new(&*recording.bytes, None).unwrap();
    let batches: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(batches.len(), 3);
    let kinds = batches[2]
        .column_by_name("kind")
        .unwrap()
        .as_any_dictionary()
        .values();
    let kinds: Vec<_> = kinds.as_string::<i32>().iter().flatten().collect();
    assert_eq!(kinds, Kind::ALL.map(Kind::name));

    let headers = headers(&recording.bytes);
    let count = |header| headers.iter().filter(|found| **found == header).count();
    let named = schema()
        .fields()
        .iter()
        .filter(|field| matches!(field.data_type(), DataType::Dictionary(_, _)))
        .count();
    assert_eq!(named, 5);
    assert_eq!(count(MessageHeader::DictionaryBatch), named);
    assert_eq!(count(MessageHeader::RecordBatch), 3);
}

/// The header types of all messages of a complete stream.
fn headers(mut bytes: &[u8]) -> Vec<MessageHeader> {
    let mut headers = Vec::new();
    loop {
        let length = i32::from_le_bytes(bytes[4..8].try_into().unwrap());
        if length == 0 {
            return headers;
        }
        let (metadata, rest) = bytes[8..].split_at(usize::try_from(length).unwrap());
        let message = arrow_ipc::root_as_message(metadata).unwrap();
        headers.push(message.header_type());
        bytes = &rest[usize::try_from(message.bodyLength()).unwrap()..];
    }
}

#[test]
fn the_recorder_is_named() {
    let recording = Writer::new(Vec::new()).unwrap().finish().unwrap();
    let reader = trace::Reader::new(&*recording).unwrap();
    assert_eq!(reader.metadata("cudasnoop.format_version"), Some("1"));
    assert_eq!(reader.metadata("cudasnoop.clock"), Some("CLOCK_MONOTONIC"));
    assert_eq!(
        reader.metadata("cudasnoop.version"),
        Some(env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn the_docs_have_every_column_with_its_type() {
    let schema = schema();
    let mut rows = DOCS.lines().filter(|line| line.starts_with("| `"));
    for field in schema.fields() {
        let row = rows.find(|row| row.starts_with(&format!("| `{}` |", field.name())));
        let row = row.unwrap_or_else(|| panic!("{}: no row, or not in order", field.name()));
        assert!(
            row.contains(&format!("| {} |", type_name(field.data_type()))),
            "{row}"
        );
        let unit = field.metadata().get("unit").map_or("", String::as_str);
        assert!(
            row.contains(&format!("| {unit} |").replace("|  |", "| |")),
            "{row}"
        );
    }
    for key in schema.metadata.iter().map(|(key, _)| key) {
        assert!(DOCS.contains(&format!("`{key}`")), "{key}");
    }
    for kind in Kind::ALL {
        assert!(DOCS.contains(&format!("| `{}` |", kind.name())), "{kind:?}");
    }
}

#[test]
fn the_docs_have_every_fact_with_its_fields() {
    let (_, section) = DOCS.split_once("\n## Facts\n").unwrap();
    for fact in facts() {
        let fact: serde_json::Value = serde_json::from_str(&fact.to_text()).unwrap();
        let tag = fact["fact"].as_str().unwrap();
        let row = section
            .lines()
            .find(|line| line.starts_with(&format!("| `{tag}` |")));
        let row = row.unwrap_or_else(|| panic!("{tag}: no row"));
        for field in fact
            .as_object()
            .unwrap()
            .keys()
            .filter(|field| *field != "fact")
        {
            assert!(row.contains(&format!("`{field}`")), "{tag}: {field}");
        }
    }
}

#[test]
fn the_docs_have_every_flag() {
    let source = include_str!("../../../agent-common/src/record.rs");
    let constants = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub const "));
    let flags: Vec<_> = constants
        .filter_map(|constant| {
            let (name, bit) = constant.strip_suffix(';')?.split_once(": u32 = 1 << ")?;
            Some(format!("| {bit} | `{name}` |"))
        })
        .collect();
    assert!(flags.len() >= 9, "{flags:?}");
    for flag in flags {
        assert!(DOCS.contains(&flag), "{flag}");
    }
}

#[test]
fn a_batch_of_one_row_is_small() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.push(&launch()).unwrap();
    writer.flush().unwrap();
    let first = writer.written();
    writer.push(&launch()).unwrap();
    writer.flush().unwrap();
    // One batch each 10 s makes 8,640 a day, and a day's budget is 50 MB.
    assert!(
        writer.written() - first < 50_000_000 / 8_640,
        "{}",
        writer.written() - first
    );
}
