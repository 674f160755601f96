//! One file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::buffer::{Buffer, Texts};
use super::columns;
use crate::export::Row;
use crate::export::columns::Form;

/// Rows of a row group, which is held in memory: about 40 MB.
const ROWS: usize = 131_072;

/// A file in the making, which does not have its name yet.
pub(super) struct Part {
    day: u64,
    target: PathBuf,
    temporary: PathBuf,
    /// `None` once it is closed.
    writer: Option<SerializedFileWriter<File>>,
    columns: Vec<Buffer>,
    texts: Texts,
    rows: usize,
}

impl std::fmt::Debug for Part {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Part")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl Part {
    /// Starts the file `name` in `directory`, which is made.
    pub(super) fn create(day: u64, directory: &Path, name: &str) -> io::Result<Self> {
        fs::create_dir_all(directory).map_err(|error| about(directory, &error))?;
        let target = directory.join(name);
        if target
            .try_exists()
            .map_err(|error| about(&target, &error))?
        {
            let message = format!("{} exists: this was exported before", target.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        // What begins with a dot is no data for Spark, and no `*.parquet` for DuckDB.
        let temporary = directory.join(format!(".{name}.part"));
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&temporary)
            .map_err(|error| about(&temporary, &error))?;
        let mut part = Self {
            day,
            target,
            temporary,
            writer: None,
            columns: columns().map(|column| Buffer::new(column.form)).collect(),
            texts: Texts::default(),
            rows: 0,
        };
        let writer = writer(file).map_err(|error| part.failed(&error))?;
        part.writer = Some(writer);
        Ok(part)
    }

    /// Days since 1970, UTC.
    pub(super) const fn day(&self) -> u64 {
        self.day
    }

    pub(super) fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        for (buffer, column) in self.columns.iter_mut().zip(columns()) {
            buffer.push((column.of)(row), &mut self.texts);
        }
        self.rows += 1;
        if self.rows == ROWS {
            self.write_group()?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> io::Result<()> {
        self.rows = 0;
        let result = match &mut self.writer {
            Some(writer) => write_group(writer, &mut self.columns),
            None => Ok(()),
        };
        self.texts = Texts::default();
        result.map_err(|error| self.failed(&error))
    }

    /// Completes the file, still without its name; gives its bytes.
    pub(super) fn close(&mut self) -> io::Result<u64> {
        if self.rows > 0 {
            self.write_group()?;
        }
        let Some(writer) = self.writer.take() else {
            return Ok(0);
        };
        let file = writer.into_inner().map_err(|error| self.failed(&error))?;
        let metadata = file
            .metadata()
            .map_err(|error| about(&self.temporary, &error))?;
        Ok(metadata.len())
    }

    /// Gives the file its name.
    pub(super) fn publish(self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.target).map_err(|error| about(&self.target, &error))
    }

    fn failed(&self, error: &ParquetError) -> io::Error {
        io::Error::other(format!("{}: {error}", self.temporary.display()))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Ours, and not whole; where it has its name by now, there is none.
        let _ = fs::remove_file(&self.temporary);
    }
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn writer(file: File) -> Result<SerializedFileWriter<File>, ParquetError> {
    let version = concat!("cudasnoop ", env!("CARGO_PKG_VERSION"));
    let clock = KeyValue::new("cudasnoop.clock".to_owned(), "CLOCK_MONOTONIC".to_owned());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_created_by(version.to_owned())
        .set_key_value_metadata(Some(vec![clock]))
        .build();
    SerializedFileWriter::new(file, Arc::new(schema()?), Arc::new(properties))
}

fn schema() -> Result<Type, ParquetError> {
    let field = |name: &str, form: Form| {
        let integer = |bits, is_signed| Some(LogicalType::integer(bits, is_signed));
        let (physical, logical) = match form {
            Form::Small => (Physical::INT32, integer(32, false)),
            Form::Signed => (Physical::INT32, integer(32, true)),
            Form::Number | Form::Address => (Physical::INT64, integer(64, false)),
            Form::Size => (Physical::INT64, integer(64, true)),
            Form::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            // Spark reads no nanoseconds; `ts` has them.
            Form::Time => {
                let time = LogicalType::timestamp(true, TimeUnit::MICROS);
                (Physical::INT64, Some(time))
            }
        };
        Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    let fields = columns().map(|column| field(column.name, column.form));
    Type::group_type_builder("cudasnoop")
        .with_fields(fields.collect::<Result<_, _>>()?)
        .build()
}

fn write_group(
    writer: &mut SerializedFileWriter<File>,
    columns: &mut [Buffer],
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for buffer in columns {
        let Some(mut column) = group.next_column()? else {
            break;
        };
        buffer.write(&mut column)?;
        column.close()?;
    }
    group.close()?;
    Ok(())
}
