//! Parquet for fleets: `pod=NAME/date=DAY/*.parquet` under one directory.

mod buffer;
mod part;

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use self::part::Part;
use super::columns::{COLUMNS, Column, Form, Value};
use super::{Names, Row, Sink};
use crate::wall_clock;

/// Days that are written at a time: calls that began before midnight end after it.
const DAYS: usize = 2;

/// What Hive and its heirs call a partition whose value is not known.
const UNKNOWN: &str = "__HIVE_DEFAULT_PARTITION__";

/// Longest name of a pod that a directory is named by, bytes as written.
const LONGEST: usize = 200;

/// What is the same in all rows of a recording, or of a process: with many recordings in one
/// table, each row has to say where it comes from.
const FLEET: &[Column] = super::columns::columns! {
    namespace: Text = |row| pod(row.names).and_then(|pod| pod.namespace.as_deref());
    node: Text = |row| pod(row.names).and_then(|pod| pod.node.as_deref());
    host: Text = |row| row.names.settings().map(|settings| settings.host.as_str());
    process_command: Text = |row| row.process().map(|process| process.command.as_str());
};

fn columns() -> impl Iterator<Item = &'static Column> + Clone {
    COLUMNS.iter().chain(FLEET)
}

fn pod(names: &Names) -> Option<&trace::fact::Pod> {
    names.settings()?.pod.as_ref()
}

/// Writes Parquet files.
#[derive(Debug)]
pub struct Parquet {
    directory: PathBuf,
    /// What the files are named by: when the first row was, ns.
    start: Option<u64>,
    /// Files that rows go to, the one used last at the end.
    open: Vec<Part>,
    finished: Vec<Part>,
    parts: usize,
    bytes: u64,
}

impl Parquet {
    /// Under `directory`, which is made. What it holds stays; files appear when all are whole.
    pub const fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            start: None,
            open: Vec::new(),
            finished: Vec::new(),
            parts: 0,
            bytes: 0,
        }
    }

    /// A file for the rows of a day.
    fn create(&mut self, row: &Row<'_>, day: u64, time: Option<u64>) -> io::Result<Part> {
        let start = *self.start.get_or_insert(time.unwrap_or(row.moment()));
        let date = time.and_then(wall_clock::rfc_3339);
        let date = date.as_deref().map_or(UNKNOWN, |time| &time[..10]);
        let pod = pod(row.names).and_then(|pod| pod.name.as_deref());
        // Without Kubernetes, the host is what rows come from.
        let host = || row.names.settings().map(|settings| settings.host.as_str());
        let pod = pod
            .or_else(host)
            .map_or_else(|| UNKNOWN.to_owned(), escaped);
        let directory = self.directory.join(format!("pod={pod}/date={date}"));
        let name = format!("{start}-{}.parquet", self.parts);
        self.parts += 1;
        Part::create(day, &directory, &name)
    }

    /// The file of the row's day.
    fn part(&mut self, row: &Row<'_>) -> io::Result<&mut Part> {
        let time = row.names.clocks().realtime(row.moment());
        let day = time.map_or(u64::MAX, |time| time / 86_400_000_000_000);
        let known = self.open.iter().position(|part| part.day() == day);
        let part = if let Some(place) = known {
            self.open.remove(place)
        } else {
            self.create(row, day, time)?
        };
        if self.open.len() == DAYS {
            let mut oldest = self.open.remove(0);
            self.bytes += oldest.close()?;
            self.finished.push(oldest);
        }
        self.open.push(part);
        self.open
            .last_mut()
            .ok_or_else(|| io::Error::other("no part is open"))
    }
}

impl Sink for Parquet {
    fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        self.part(row)?.row(row)
    }

    fn finish(mut self: Box<Self>, _: &Names) -> io::Result<u64> {
        for mut part in std::mem::take(&mut self.open) {
            self.bytes += part.close()?;
            self.finished.push(part);
        }
        for part in std::mem::take(&mut self.finished) {
            part.publish()?;
        }
        Ok(self.bytes)
    }
}

/// A value as the name of a directory, as Hive escapes it: the recording chose it.
fn escaped(value: &str) -> String {
    let mut name = String::new();
    for byte in value.bytes() {
        if name.len() >= LONGEST {
            break;
        }
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => name.push(byte.into()),
            _ => {
                // Memory takes all.
                let _ = write!(name, "%{byte:02X}");
            }
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_the_directory() {
        assert_eq!(escaped("vllm-7d9f-x2.prod"), "vllm-7d9f-x2.prod");
        assert_eq!(escaped("../../etc"), "..%2F..%2Fetc");
        assert_eq!(escaped("a=b c\0"), "a%3Db%20c%00");
        assert!(escaped(&"ä".repeat(1000)).len() <= LONGEST + 3);
    }
}
