//! CSV as RFC 4180 has it, with a header; null is an empty field.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::columns::{COLUMNS, Value};
use super::{Names, Row, Sink};
use crate::wall_clock;

/// Writes CSV.
#[derive(Debug)]
pub struct Csv<W: Write> {
    writer: csv::Writer<Counted<W>>,
    has_header: bool,
    field: String,
}

/// Counts what is written.
#[derive(Debug)]
struct Counted<W> {
    output: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.output.write(buffer)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

impl<W: Write> Csv<W> {
    /// To `output`.
    pub fn new(output: W) -> Self {
        Self {
            writer: csv::Writer::from_writer(Counted { output, bytes: 0 }),
            has_header: false,
            field: String::new(),
        }
    }

    fn header(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_header, true) {
            self.writer
                .write_record(COLUMNS.iter().map(|column| column.name))?;
        }
        Ok(())
    }
}

impl<W: Write> Sink for Csv<W> {
    fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        self.header()?;
        for column in COLUMNS {
            self.field.clear();
            let text = match (column.of)(row) {
                None => Ok(()),
                Some(Value::Small(number)) => write!(self.field, "{number}"),
                Some(Value::Signed(number)) => write!(self.field, "{number}"),
                Some(Value::Number(number)) => write!(self.field, "{number}"),
                Some(Value::Size(bytes)) => write!(self.field, "{bytes}"),
                Some(Value::Address(address)) => write!(self.field, "{address:#x}"),
                Some(Value::Text(text)) => self.field.write_str(text),
                Some(Value::Time(time)) => self
                    .field
                    .write_str(&wall_clock::rfc_3339(time).unwrap_or_default()),
            };
            text.map_err(io::Error::other)?;
            self.writer.write_field(&self.field)?;
        }
        self.writer.write_record(None::<&[u8]>)?;
        Ok(())
    }

    fn finish(mut self: Box<Self>, _: &Names) -> io::Result<u64> {
        self.header()?;
        let mut output = self
            .writer
            .into_inner()
            .map_err(csv::IntoInnerError::into_error)?;
        output.flush()?;
        Ok(output.bytes)
    }
}
