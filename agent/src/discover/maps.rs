//! `/proc/PID/maps`: which files a process executes code from, and where.
//!
//! The path is the rest of the line, unescaped but for line ends, and the process chose
//! it: it is taken as bytes, and nothing after it is believed.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

use super::process::{Process, ProcessError};

/// Longest line: a path may be longer than `PATH_MAX`, and line ends in it take four bytes.
const LINE_LIMIT: u64 = 32 * 1024;
/// Twice the default of `vm.max_map_count`.
const MAPPING_LIMIT: usize = 131_072;
/// All distinct paths together, bytes. A process with 1,000 libraries has 0.1 MB.
const PATHS_LIMIT: usize = 16 * 1024 * 1024;

/// What the kernel appends to the path of an unlinked file.
const DELETED: &[u8] = b" (deleted)";

/// A stretch of addresses that maps a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// File offset of `start`, bytes.
    pub offset: u64,
}

/// A file that a process executes code from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    /// The path as `/proc/PID/maps` shows it, without the mark of an unlinked file: seen
    /// from the root of the process's mount namespace, line ends written as `\012`. A claim,
    /// not an address: [`super::Located`] checks it.
    pub path: PathBuf,
    /// Whether the file is marked as unlinked since it was mapped.
    pub deleted: bool,
    /// Device number, as maps shows it. On overlayfs and btrfs `stat` shows another one.
    pub device: u64,
    /// Inode number, as maps shows it.
    pub inode: u64,
    /// Its executable mappings, in order of addresses.
    pub ranges: Vec<Range>,
}

impl MappedFile {
    /// Whether its name is that of a library of CUDA or of PyTorch's allocator.
    pub fn is_named_like_cuda(&self) -> bool {
        self.path.file_name().is_some_and(|name| {
            let name = name.as_bytes();
            name.starts_with(b"libcuda") || name.starts_with(b"libc10")
        })
    }
}

/// A place in a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOffset {
    /// Index in [`Mappings::files`].
    pub file: usize,
    /// Bytes from the beginning of the file.
    pub offset: u64,
}

/// The executable file mappings of a process, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    files: Vec<MappedFile>,
    /// In order of addresses, with the index of the file.
    ranges: Vec<(Range, usize)>,
}

impl Mappings {
    /// What `process` maps now.
    pub fn read(process: &Process) -> Result<Self, ProcessError> {
        let maps =
            File::open(process.path("maps")).map_err(|error| process.error("maps", error))?;
        Self::parse(BufReader::new(maps)).map_err(|error| match error {
            ParseError::Read(error) => process.error("maps", error),
            ParseError::Malformed(detail) => ProcessError::Malformed {
                pid: process.pid(),
                file: "maps",
                detail,
            },
        })
    }

    fn parse(mut maps: impl BufRead) -> Result<Self, ParseError> {
        let mut mappings = Self::default();
        let mut known = HashMap::new();
        let mut path_bytes = 0;
        let mut line = Vec::new();
        loop {
            line.clear();
            maps.by_ref()
                .take(LINE_LIMIT)
                .read_until(b'\n', &mut line)?;
            if line.is_empty() {
                break;
            }
            let Some(row) = line.strip_suffix(b"\n").and_then(Row::parse) else {
                return Err(ParseError::Malformed(
                    "a line is not as the kernel writes it",
                ));
            };
            if !row.executable || row.inode == 0 || !row.path.starts_with(b"/") {
                continue;
            }
            let file = *known.entry((row.device, row.inode)).or_insert_with(|| {
                path_bytes += row.path.len();
                mappings.files.push(row.file());
                mappings.files.len() - 1
            });
            mappings.ranges.push((row.range, file));
            if mappings.ranges.len() > MAPPING_LIMIT || path_bytes > PATHS_LIMIT {
                return Err(ParseError::Malformed(
                    "more mappings than any sane process has",
                ));
            }
        }
        mappings
            .ranges
            .sort_unstable_by_key(|(range, _)| range.start);
        for (range, file) in &mappings.ranges {
            mappings.files[*file].ranges.push(*range);
        }
        Ok(mappings)
    }

    /// The files, each once, whatever number of mappings it has.
    pub fn files(&self) -> &[MappedFile] {
        &self.files
    }

    /// The place in a file that `address` maps; `None` for code that is in no file.
    pub fn file_at(&self, address: u64) -> Option<FileOffset> {
        let after = self
            .ranges
            .partition_point(|(range, _)| range.start <= address);
        let (range, file) = self.ranges.get(after.checked_sub(1)?)?;
        let offset = range.offset.checked_add(address - range.start)?;
        (address < range.end).then_some(FileOffset {
            file: *file,
            offset,
        })
    }
}

/// Device and inode number of the file that our own process maps at `address`.
pub(super) fn own_file_at(address: u64) -> io::Result<Option<(u64, u64)>> {
    let mut maps = BufReader::new(File::open("/proc/self/maps")?);
    let mut line = Vec::new();
    while maps.read_until(b'\n', &mut line)? > 0 {
        if let Some(row) = line.strip_suffix(b"\n").and_then(Row::parse)
            && (row.range.start..row.range.end).contains(&address)
        {
            return Ok(Some((row.device, row.inode)));
        }
        line.clear();
    }
    Ok(None)
}

/// A stretch of memory that a process may read and shares with nobody: code, or memory that maps no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PrivateMemory {
    /// First address.
    pub(super) start: u64,
    /// First address after it.
    pub(super) end: u64,
    pub(super) is_code: bool,
}

/// The private memory of `process`, in order; stretches that touch and are alike are one.
pub(super) fn private_memory(process: &Process) -> Result<Vec<PrivateMemory>, ProcessError> {
    let failed = |error| process.error("maps", error);
    let mut maps = BufReader::new(File::open(process.path("maps")).map_err(failed)?);
    let mut stretches: Vec<PrivateMemory> = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        maps.by_ref()
            .take(LINE_LIMIT)
            .read_until(b'\n', &mut line)
            .map_err(failed)?;
        let Some(row) = line.strip_suffix(b"\n").and_then(Row::parse) else {
            return Ok(stretches);
        };
        let is_code = row.executable;
        if !row.is_private || (row.inode != 0 && !is_code) {
            continue;
        }
        let Range { start, end, .. } = row.range;
        if let Some(last) = stretches.last_mut()
            && (last.end, last.is_code) == (start, is_code)
        {
            last.end = end;
        } else if stretches.len() < MAPPING_LIMIT {
            stretches.push(PrivateMemory {
                start,
                end,
                is_code,
            });
        } else {
            return Ok(stretches);
        }
    }
}

#[derive(Debug)]
enum ParseError {
    Read(io::Error),
    Malformed(&'static str),
}

impl From<io::Error> for ParseError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// One line: `START-END PERMISSIONS OFFSET MAJOR:MINOR INODE   PATH`.
struct Row<'line> {
    range: Range,
    executable: bool,
    /// Readable, and not shared.
    is_private: bool,
    device: u64,
    inode: u64,
    path: &'line [u8],
}

impl<'line> Row<'line> {
    fn parse(line: &'line [u8]) -> Option<Self> {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let mut field = || std::str::from_utf8(fields.next()?).ok();
        let (start, end) = field()?.split_once('-')?;
        let permissions = field()?;
        let offset = hex(field()?)?;
        let (major, minor) = field()?.split_once(':')?;
        let (major, minor) = (
            u32::from_str_radix(major, 16),
            u32::from_str_radix(minor, 16),
        );
        let inode = field()?.parse().ok()?;
        // Padded with blanks; a file's path begins with a slash.
        let path = fields.next().unwrap_or_default().trim_ascii_start();
        Some(Self {
            range: Range {
                start: hex(start)?,
                end: hex(end)?,
                offset,
            },
            executable: permissions.as_bytes().get(2) == Some(&b'x'),
            is_private: permissions.starts_with('r') && permissions.ends_with('p'),
            device: libc::makedev(major.ok()?, minor.ok()?),
            inode,
            path,
        })
    }

    fn file(&self) -> MappedFile {
        let kept = self.path.strip_suffix(DELETED);
        MappedFile {
            path: PathBuf::from(OsString::from_vec(kept.unwrap_or(self.path).to_vec())),
            deleted: kept.is_some(),
            device: self.device,
            inode: self.inode,
            ranges: Vec::new(),
        }
    }
}

fn hex(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use proptest::prelude::*;

    use super::*;

    fn parse(maps: &[u8]) -> Mappings {
        Mappings::parse(maps).expect("parses")
    }

    #[test]
    fn odd_names_are_kept_to_the_last_byte() {
        let names: [&[u8]; 7] = [
            b"/app/libcudart.so.12 X",
            b"/app/lib cuda.so.1",
            b"/app/two  blanks ",
            b"/app/r-xp 00000000 fe:00 1 /etc/passwd",
            b"/app/line\\012end.so",
            b"/app/\xff\xfe.so",
            b"/app/tab\there (deleted",
        ];
        for name in names {
            let mut line =
                b"1000-3000 r-xp 00002000 fe:01 12345678901                    ".to_vec();
            line.extend_from_slice(name);
            line.push(b'\n');
            let mappings = parse(&line);
            let [file] = mappings.files() else {
                panic!("one file of {name:?}")
            };
            assert_eq!(file.path.as_os_str().as_bytes(), name);
            assert!(!file.deleted);
            assert_eq!(file.inode, 12_345_678_901);
            assert_eq!(file.device, libc::makedev(0xfe, 1));
            assert_eq!(
                file.ranges,
                [Range {
                    start: 0x1000,
                    end: 0x3000,
                    offset: 0x2000
                }]
            );
        }
    }

    #[test]
    fn segments_of_a_file_are_one_file() {
        let mappings = parse(
            b"1000-2000 r--p 00000000 00:2b 7                          /lib/a.so\n\
              2000-3000 r-xp 00001000 00:2b 7                          /lib/a.so\n\
              5000-6000 r-xp 00003000 00:2b 7                          /lib/a.so\n\
              6000-7000 r-xp 00000000 00:2b 8                          /lib/b.so (deleted)\n\
              7000-8000 rwxp 00000000 00:00 0 \n\
              8000-9000 r-xp 00000000 00:00 0                          [vdso]\n\
              9000-a000 rwxp 00000000 00:05 0                          /weird inode\n\
              ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0          [vsyscall]\n",
        );
        assert_eq!(mappings.files().len(), 2);
        assert_eq!(mappings.files()[0].ranges.len(), 2);
        assert!(mappings.files()[1].deleted);
        assert_eq!(mappings.files()[1].path, PathBuf::from("/lib/b.so"));
        let at = |address| mappings.file_at(address).map(|at| (at.file, at.offset));
        assert_eq!(at(0x0fff), None);
        assert_eq!(at(0x1fff), None, "not executable");
        assert_eq!(at(0x2000), Some((0, 0x1000)));
        assert_eq!(at(0x2fff), Some((0, 0x1fff)));
        assert_eq!(at(0x3000), None);
        assert_eq!(at(0x5004), Some((0, 0x3004)));
        assert_eq!(at(0x6001), Some((1, 1)));
        assert_eq!(at(0x7000), None, "in no file");
        assert_eq!(at(0x8000), None, "in no file");
        assert_eq!(at(u64::MAX), None);
    }

    #[test]
    fn text_that_the_kernel_does_not_write_is_refused() {
        let long = [b"1-2 r-xp 0 0:0 1 /".as_slice(), &vec![b'a'; 40_000], b"\n"].concat();
        let texts: [&[u8]; 6] = [
            b"\n",
            b"1-2 r-xp 0 0:0 1 /cut",
            b"1-2 r-xp 0 0:0 x /a\n",
            b"12 r-xp 0 0:0 1 /a\n",
            b"1-2 r-xp 0 00 1 /a\n",
            &long,
        ];
        for text in texts {
            assert!(Mappings::parse(text).is_err(), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn our_own_code_is_found() {
        let own = Process::open(std::process::id()).expect("we live");
        let mappings = Mappings::read(&own).expect("readable");
        let address = parse as fn(&[u8]) -> Mappings as usize as u64;
        let at = mappings
            .file_at(address)
            .expect("this function is in a file");
        let exe = std::env::current_exe().expect("known");
        assert_eq!(mappings.files()[at.file].path, exe);
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in prop::collection::vec(any::<u8>(), 0..400)) {
            if let Ok(mappings) = Mappings::parse(&text[..]) {
                mappings.file_at(0x1000);
            }
        }

        #[test]
        fn arbitrary_names_survive(name in "[^\n]{0,200}") {
            let mappings = parse(format!("1-2 r-xp 0 0:0 1 /{name}\n").as_bytes());
            let file = &mappings.files()[0];
            let mut shown = file.path.as_os_str().as_bytes().to_vec();
            if file.deleted {
                shown.extend_from_slice(DELETED);
            }
            prop_assert_eq!(shown, format!("/{name}").into_bytes());
        }
    }
}
