//! JSON Lines: one object a row, without what is null.

use std::io::{self, Write};

use super::columns::COLUMNS;
use super::json::Object;
use super::{Names, Row, Sink};

/// Writes JSON Lines.
#[derive(Debug)]
pub struct JsonLines<W> {
    output: W,
    line: Vec<u8>,
    bytes: u64,
}

impl<W: Write> JsonLines<W> {
    /// To `output`, in small pieces.
    pub const fn new(output: W) -> Self {
        Self {
            output,
            line: Vec::new(),
            bytes: 0,
        }
    }
}

impl<W: Write> Sink for JsonLines<W> {
    fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        self.line.clear();
        let mut object = Object::open(&mut self.line);
        for column in COLUMNS {
            if let Some(value) = (column.of)(row) {
                object.value(column.name, value);
            }
        }
        object.close();
        self.line.push(b'\n');
        self.bytes += self.line.len() as u64;
        self.output.write_all(&self.line)
    }

    fn finish(mut self: Box<Self>, _: &Names) -> io::Result<u64> {
        self.output.flush()?;
        Ok(self.bytes)
    }
}
