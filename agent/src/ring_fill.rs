//! How full the ring buffer is, seen from outside the thread that empties it.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd},
    ptr::{self, NonNull},
    sync::atomic::{AtomicUsize, Ordering},
};

use aya::maps::MapData;

/// The ring buffer's two positions, mapped for reading: the kernel has each in a page of its own,
/// first the reader's, then the writers' (kernel/bpf/ringbuf.c, `struct bpf_ringbuf`).
#[derive(Debug)]
pub struct RingFill {
    consumer: Position,
    producer: Position,
    bytes: usize,
}

impl RingFill {
    /// Of this map.
    pub(crate) fn of(map: &MapData) -> io::Result<Self> {
        let page = page_bytes()?;
        let info = map.info().map_err(io::Error::other)?;
        let map = map.fd().as_fd();
        Ok(Self {
            consumer: Position::map(map, page, 0)?,
            producer: Position::map(map, page, page)?,
            bytes: usize::try_from(info.max_entries()).unwrap_or(usize::MAX),
        })
    }

    /// From 0 to 1.
    #[expect(
        clippy::cast_precision_loss,
        reason = "rings have far below 2^52 bytes"
    )]
    pub(crate) fn ratio(&self) -> f64 {
        // The reader's position first: it never passes the writers'.
        let consumer = self.consumer.read();
        let used = self.producer.read().wrapping_sub(consumer).min(self.bytes);
        used as f64 / self.bytes.max(1) as f64
    }
}

/// A page whose first word is a position.
#[derive(Debug)]
struct Position {
    page: NonNull<AtomicUsize>,
    bytes: usize,
}

// SAFETY: the page belongs to this value alone and is only read, atomically.
unsafe impl Send for Position {}
// SAFETY: likewise.
unsafe impl Sync for Position {}

impl Position {
    fn map(map: BorrowedFd<'_>, bytes: usize, offset: usize) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: a new mapping, at an address that the kernel chooses, for reading.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                offset,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page = NonNull::new(address.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { page, bytes })
    }

    fn read(&self) -> usize {
        // SAFETY: the page is mapped as long as this value lives, and begins with a word that
        // both sides access atomically.
        unsafe { self.page.as_ref() }.load(Ordering::Acquire)
    }
}

impl Drop for Position {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and used by nobody any more.
        unsafe { libc::munmap(self.page.as_ptr().cast(), self.bytes) };
    }
}

fn page_bytes() -> io::Result<usize> {
    // SAFETY: takes no pointer.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).map_err(|_| io::Error::last_os_error())
}
