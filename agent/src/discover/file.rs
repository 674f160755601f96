//! Opening the very file that a process maps.
//!
//! A path in `/proc/PID/maps` is only a claim: it may lead elsewhere by now, and it is
//! meant in the mount namespace of that process. So a file is first located without being
//! opened (no fifo can hold us up, no device notices), inside the root of the process and
//! never outside it, then its identity is compared with what is mapped, and only then is it
//! opened for reading. The descriptor is kept: probes are attached through it, so that no
//! swap of the path can lead them astray.

use std::{
    ffi::OsStr,
    fs::{self, File, Metadata, OpenOptions},
    io,
    os::{
        fd::{AsFd, AsRawFd},
        unix::{
            ffi::OsStrExt,
            fs::{MetadataExt, OpenOptionsExt},
        },
    },
    path::{Path, PathBuf},
    ptr,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
};

use super::{
    maps::{self, MappedFile},
    process::Process,
};

/// How often the kernel may say that a path changed while it walked it.
const WALK_ATTEMPTS: usize = 16;

/// Why the file that a process maps could not be opened. Each variant has its path.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nothing at the path is what the process maps.
    #[error(
        "{}: what the process maps is no longer at this path (unlinked or replaced since, or \
         hidden by a mount); CAP_CHECKPOINT_RESTORE opens it all the same",
        path.display()
    )]
    Replaced {
        /// The path in maps.
        path: PathBuf,
    },
    /// The kernel does not let us look.
    #[error(
        "{}: cannot reach the file of the process: permission denied; grant CAP_SYS_PTRACE, and \
         run as root or as the user of the process",
        path.display()
    )]
    Denied {
        /// The path in maps.
        path: PathBuf,
    },
    /// Another failure.
    #[error("{}: cannot open the file that the process maps: {source}", path.display())]
    Failed {
        /// The path in maps.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl OpenError {
    fn new(mapped: &MappedFile, source: io::Error) -> Self {
        let path = mapped.path.clone();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied { path },
            _ => Self::Failed { path, source },
        }
    }
}

/// Which content a file has: what is known of a file stays true while this is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Device number, as `stat` shows it.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Time of the last change of the content, ns since 1970.
    pub modified: i128,
}

impl FileIdentity {
    fn of(metadata: &Metadata) -> Self {
        let seconds = i128::from(metadata.mtime());
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: seconds * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        }
    }
}

/// A regular file that was found to be what a process maps, not opened yet.
#[derive(Debug)]
pub struct Located {
    handle: File,
    identity: FileIdentity,
    path: PathBuf,
}

/// A file that a process maps, open for reading.
#[derive(Debug)]
pub struct TargetFile {
    file: File,
    identity: FileIdentity,
}

impl Located {
    /// Finds what `process` maps as `mapped`: by `/proc/PID/map_files`, which cannot be
    /// mistaken but needs `CAP_CHECKPOINT_RESTORE`, else by path inside the root of the process.
    pub fn find(process: &Process, mapped: &MappedFile) -> Result<Self, OpenError> {
        if let Some(located) = Self::by_mapping(process, mapped) {
            return Ok(located);
        }
        let root =
            open_root(&process.path("root")).map_err(|error| OpenError::new(mapped, error))?;
        // Where the process lives in a chroot of a mount namespace that we share, maps shows
        // paths from the root of the namespace.
        let jail = fs::read_link(process.path("root")).unwrap_or_default();
        Self::by_path(&root, &jail, mapped)
    }

    /// Finds what a process that is gone by now mapped as `mapped`, in our own root.
    pub fn find_here(mapped: &MappedFile) -> Result<Self, OpenError> {
        let root = open_root(Path::new("/")).map_err(|error| OpenError::new(mapped, error))?;
        Self::by_path(&root, Path::new("/"), mapped)
    }

    /// Which content it has.
    pub const fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Opens it for reading.
    pub fn open(self) -> Result<TargetFile, OpenError> {
        let Self {
            handle,
            identity,
            path,
        } = self;
        let file = reopen(&handle).map_err(|source| OpenError::Failed { path, source })?;
        Ok(TargetFile { file, identity })
    }

    fn by_mapping(process: &Process, mapped: &MappedFile) -> Option<Self> {
        mapped.ranges.iter().find_map(|range| {
            let link = process.path(&format!("map_files/{:x}-{:x}", range.start, range.end));
            let handle = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_PATH)
                .open(link)
                .ok()?;
            Self::check(handle, mapped).ok()?
        })
    }

    fn by_path(root: &File, jail: &Path, mapped: &MappedFile) -> Result<Self, OpenError> {
        let mut failure = None;
        for path in candidates(mapped, jail) {
            let found = locate_in(root, &path).and_then(|handle| Self::check(handle, mapped));
            match found {
                Ok(Some(located)) => return Ok(located),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => failure = Some(error),
            }
        }
        Err(match failure {
            Some(error) => OpenError::new(mapped, error),
            None => OpenError::Replaced {
                path: mapped.path.clone(),
            },
        })
    }

    /// `None` where `handle` is not the regular file that is mapped.
    fn check(handle: File, mapped: &MappedFile) -> io::Result<Option<Self>> {
        let metadata = handle.metadata()?;
        if !metadata.is_file() {
            return Ok(None);
        }
        let same = (metadata.dev(), metadata.ino()) == (mapped.device, mapped.inode);
        if !same && !maps_as(&reopen(&handle)?, mapped)? {
            return Ok(None);
        }
        let identity = FileIdentity::of(&metadata);
        Ok(Some(Self {
            handle,
            identity,
            path: mapped.path.clone(),
        }))
    }
}

impl TargetFile {
    /// A regular file that we name ourselves, not a process: `/proc/PID/exe`, or the
    /// executable of a command.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::from_handle(
            &OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_PATH)
                .open(path)?,
        )
    }

    /// The regular file at `path` with `root` as the root directory.
    pub fn open_in(root: &impl AsFd, path: &Path) -> io::Result<Self> {
        Self::from_handle(&locate_in(root, path)?)
    }

    fn from_handle(handle: &File) -> io::Result<Self> {
        let metadata = handle.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        Ok(Self {
            file: reopen(handle)?,
            identity: FileIdentity::of(&metadata),
        })
    }

    /// The open file.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Which content it has.
    pub const fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// The path to attach probes by. Good as long as this value lives.
    pub fn attach_path(&self) -> PathBuf {
        descriptor_path(&self.file)
    }
}

fn open_root(path: &Path) -> io::Result<File> {
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// A handle on what lies at `path` with `root` as the root directory: symbolic links and
/// `..` stay inside, links of the `/proc/PID/fd` kind are not followed.
fn locate_in(root: &impl AsFd, path: &Path) -> io::Result<File> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    for _ in 0..WALK_ATTEMPTS {
        match openat2(root.as_fd(), path, how) {
            Ok(handle) => return Ok(handle.into()),
            // Something was renamed or mounted meanwhile.
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(Errno::EAGAIN.into())
}

/// Opens for reading what `handle` stands for, wherever its path leads by now.
fn reopen(handle: &File) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(descriptor_path(handle))
}

fn descriptor_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// The paths that the text in maps may stand for. ` (deleted)` may be the kernel's mark or
/// the end of a name, `\012` a line end or four characters, and the prefix that is the
/// root of the process may have to go. The identity check finds the right one.
fn candidates(mapped: &MappedFile, jail: &Path) -> Vec<PathBuf> {
    let mut paths = vec![mapped.path.clone()];
    if mapped.deleted {
        let mut marked = mapped.path.clone().into_os_string();
        marked.push(" (deleted)");
        paths.push(marked.into());
    }
    for index in 0..paths.len() {
        let shown = paths[index].as_os_str().as_bytes();
        let unescaped = unescape(shown);
        if unescaped != shown {
            paths.push(OsStr::from_bytes(&unescaped).into());
        }
    }
    if jail.parent().is_some() {
        let inside: Vec<_> = paths
            .iter()
            .filter_map(|path| path.strip_prefix(jail).ok())
            .map(Into::into)
            .collect();
        paths.extend(inside);
    }
    paths
}

fn unescape(shown: &[u8]) -> Vec<u8> {
    const ESCAPED: &[u8] = b"\\012";
    let mut path = Vec::with_capacity(shown.len());
    let mut rest = shown;
    while let Some(first) = rest.first() {
        if let Some(after) = rest.strip_prefix(ESCAPED) {
            path.push(b'\n');
            rest = after;
        } else {
            path.push(*first);
            rest = &rest[1..];
        }
    }
    path
}

/// Whether a mapping of `file` shows as the same device and inode as `mapped` does.
///
/// `stat` and maps name files by different device numbers on btrfs, and on overlayfs, by
/// kernel version and mount options, by different inode numbers too. Two mappings that show
/// the same are of the same file. The mapping is never touched, so no fault can come of it.
fn maps_as(file: &File, mapped: &MappedFile) -> io::Result<bool> {
    const LENGTH: usize = 4096;
    // SAFETY: a new private mapping at an address of the kernel's choice; nobody accesses it.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            LENGTH,
            libc::PROT_NONE,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let shown = maps::own_file_at(start.addr() as u64);
    // SAFETY: exactly the mapping made above.
    unsafe { libc::munmap(start, LENGTH) };
    Ok(shown? == Some((mapped.device, mapped.inode)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::{sys::stat::Mode, unistd::mkfifo};
    use tempfile::TempDir;

    use super::*;

    /// A directory that plays the root of a process.
    fn root() -> (TempDir, File) {
        let folder = tempfile::tempdir().expect("temporary folder");
        fs::create_dir(folder.path().join("lib")).expect("folder");
        let handle = open_root(folder.path()).expect("opens");
        (folder, handle)
    }

    /// What maps would show for the file at `real`, under the path `shown`.
    fn mapped(real: &Path, shown: &str) -> MappedFile {
        let metadata = fs::metadata(real).expect("exists");
        MappedFile {
            path: shown.into(),
            deleted: false,
            device: metadata.dev(),
            inode: metadata.ino(),
            ranges: Vec::new(),
        }
    }

    fn find(root: &File, mapped: &MappedFile) -> Result<Located, OpenError> {
        Located::by_path(root, Path::new("/"), mapped)
    }

    #[test]
    fn the_mapped_file_is_found_and_attached_through_the_descriptor() {
        let (folder, root) = root();
        let real = folder.path().join("lib/libcudart.so.12 X");
        fs::write(&real, "right").expect("writes");
        fs::write(folder.path().join("lib/libcudart.so.12"), "wrong").expect("writes");
        let file = find(&root, &mapped(&real, "/lib/libcudart.so.12 X")).expect("found");
        let file = file.open().expect("opens");
        fs::remove_file(&real).expect("removes");
        fs::write(&real, "swapped").expect("writes");
        assert_eq!(
            fs::read_to_string(file.attach_path()).expect("reads"),
            "right"
        );
    }

    #[test]
    fn links_and_dots_do_not_leave_the_root() {
        let (folder, root) = root();
        symlink("/etc/passwd", folder.path().join("lib/absolute")).expect("links");
        symlink(
            "../../../../../../../../etc/passwd",
            folder.path().join("lib/dots"),
        )
        .expect("links");
        symlink(
            "/proc/self/root/etc/passwd",
            folder.path().join("lib/magic"),
        )
        .expect("links");
        for path in [
            "/lib/absolute",
            "/lib/dots",
            "/lib/magic",
            "/../../../etc/passwd",
        ] {
            let error = locate_in(&root, Path::new(path)).expect_err(path);
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{path}");
        }
        // The same through the whole: even where the identity would fit.
        let error = find(&root, &mapped(Path::new("/etc/passwd"), "/lib/absolute"));
        assert!(
            matches!(error, Err(OpenError::Replaced { .. })),
            "{error:?}"
        );
    }

    #[test]
    fn an_absolute_link_is_meant_inside_the_root() {
        let (folder, root) = root();
        let real = folder.path().join("lib/real.so");
        fs::write(&real, "").expect("writes");
        symlink("/lib/real.so", folder.path().join("lib/link.so")).expect("links");
        find(&root, &mapped(&real, "/lib/link.so")).expect("found");
    }

    #[test]
    fn magic_links_are_not_followed() {
        let root = open_root(Path::new("/")).expect("opens");
        let error = locate_in(&root, Path::new("/proc/self/exe")).expect_err("a magic link");
        assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
    }

    #[test]
    fn a_fifo_neither_hangs_nor_passes() {
        let (folder, root) = root();
        let fifo = folder.path().join("lib/fifo.so");
        mkfifo(&fifo, Mode::S_IRWXU).expect("makes");
        let error = find(&root, &mapped(&fifo, "/lib/fifo.so")).expect_err("no regular file");
        assert!(matches!(error, OpenError::Replaced { .. }), "{error}");
        assert!(TargetFile::open(&fifo).is_err());
    }

    #[test]
    fn another_file_at_the_path_is_refused() {
        let (folder, root) = root();
        let (one, other) = (
            folder.path().join("lib/a.so"),
            folder.path().join("lib/b.so"),
        );
        fs::write(&one, "a").expect("writes");
        fs::write(&other, "b").expect("writes");
        let error = find(&root, &mapped(&one, "/lib/b.so")).expect_err("another inode");
        assert!(matches!(error, OpenError::Replaced { .. }), "{error}");
        assert!(error.to_string().contains("/lib/b.so"), "{error}");
    }

    #[test]
    fn marks_and_escapes_are_tried_both_ways() {
        let (folder, root) = root();
        let names = [
            "end (deleted)",
            "line\nend",
            "four\\012characters",
            "both\n (deleted)",
        ];
        for name in names {
            let real = folder.path().join("lib").join(name);
            fs::write(&real, "").expect("writes");
            let shown = format!("/lib/{name}").replace('\n', "\\012");
            let mut file = mapped(&real, shown.trim_end_matches(" (deleted)"));
            file.deleted = shown.ends_with(" (deleted)");
            find(&root, &file).expect(name);
        }
    }

    #[test]
    fn a_chroot_inside_our_namespace_is_taken_off_the_path() {
        let (folder, root) = root();
        let real = folder.path().join("lib/a.so");
        fs::write(&real, "").expect("writes");
        let shown = real.to_str().expect("UTF-8");
        let file = mapped(&real, shown);
        assert!(find(&root, &file).is_err());
        Located::by_path(&root, folder.path(), &file).expect("found");
    }

    #[test]
    fn a_mapping_of_the_file_proves_its_identity() {
        let exe = File::open("/proc/self/exe").expect("opens");
        let own = Process::open(std::process::id()).expect("we live");
        let mappings = super::super::Mappings::read(&own).expect("readable");
        let path = std::env::current_exe().expect("known");
        let file = mappings
            .files()
            .iter()
            .find(|file| file.path == path)
            .expect("mapped");
        assert!(maps_as(&exe, file).expect("maps"));
        let other = tempfile::tempfile().expect("makes");
        assert!(!maps_as(&other, file).expect("maps"));
    }
}
