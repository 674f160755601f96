//! A process's memory, read only.
//!
//! What is at an address is the process's own word: any bytes. And reading is not always without
//! effect: a page of managed memory would move from the GPU, a mapped device has registers, a file may
//! be on a server that does not answer. So private memory that maps no file is read, and no other.

use std::{
    fs::File,
    io::ErrorKind,
    os::unix::fs::FileExt as _,
    time::{Duration, Instant},
};

use super::{
    maps::{PrivateMemory, private_memory},
    process::{Process, ProcessError},
};

/// How often mappings may be read in quick succession: those of a process with 5,000 take some ms.
const MAX_LOOKS: u32 = 64;
/// How long it takes until they may be read once more.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How often it may be looked at what processes map, all of them together.
#[derive(Debug)]
pub struct LookBudget {
    left: u32,
    /// Since when no look has been earned.
    since: Instant,
}

impl Default for LookBudget {
    fn default() -> Self {
        Self {
            left: MAX_LOOKS,
            since: Instant::now(),
        }
    }
}

impl LookBudget {
    /// Spends one look; false where none is left.
    fn spend(&mut self) -> bool {
        let earned = self.since.elapsed().as_millis() / LOOK_AGAIN.as_millis();
        if earned > 0 {
            let earned = u32::try_from(earned).unwrap_or(MAX_LOOKS);
            self.left = self.left.saturating_add(earned).min(MAX_LOOKS);
            self.since = Instant::now();
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

/// The memory that a process had when this was opened: after an `exec`, nothing more of it can be
/// read.
#[derive(Debug)]
pub struct Memory {
    process: Process,
    file: File,
    known: Vec<PrivateMemory>,
}

impl Memory {
    /// That of `process`. The kernel asks for what it asks a debugger for: the same user, or
    /// `CAP_SYS_PTRACE`.
    pub fn open(process: Process) -> Result<Self, ProcessError> {
        let file = File::open(process.path("mem")).map_err(|error| process.error("mem", error))?;
        let known = private_memory(&process)?;
        Ok(Self {
            process,
            file,
            known,
        })
    }

    /// Reads from `address` on, as far as memory that is known goes: the bytes read, 0 where there is
    /// none, or code.
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        let Some(known) = self.at(address).filter(|known| !known.is_code) else {
            return 0;
        };
        let length = usize::try_from(known.end - address).unwrap_or(usize::MAX);
        let length = length.min(buffer.len());
        let buffer = &mut buffer[..length];
        let mut read = 0;
        while read < buffer.len() {
            match self
                .file
                .read_at(&mut buffer[read..], address + read as u64)
            {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // It has been unmapped since, or the process is gone.
                Err(_) => break,
            }
        }
        read
    }

    /// Whether code is known to be at `address`.
    pub fn holds_code(&self, address: u64) -> bool {
        self.at(address).is_some_and(|known| known.is_code)
    }

    /// Whether memory is known to be at `address`, or code.
    pub fn is_known(&self, address: u64) -> bool {
        self.at(address).is_some()
    }

    /// Looks at what is mapped now. False where that cannot be done, or was done too often.
    pub fn refresh(&mut self, budget: &mut LookBudget) -> bool {
        if !budget.spend() {
            return false;
        }
        let Ok(known) = private_memory(&self.process) else {
            return false;
        };
        self.known = known;
        true
    }

    fn at(&self, address: u64) -> Option<&PrivateMemory> {
        let after = self.known.partition_point(|known| known.start <= address);
        let known = self.known.get(after.checked_sub(1)?)?;
        (address < known.end).then_some(known)
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    fn own() -> Memory {
        let process = Process::open(std::process::id()).expect("this process");
        Memory::open(process).expect("its memory")
    }

    #[test]
    fn own_memory_reads_as_it_is() {
        let text = String::from("a kernel's name");
        let mut buffer = [0; 15];
        assert_eq!(own().read(text.as_ptr() as u64, &mut buffer), 15);
        assert_eq!(buffer, text.as_bytes());
    }

    #[test]
    fn memory_that_came_later_is_found() {
        let mut memory = own();
        let later = vec![7_u8; 64 << 20];
        let mut buffer = [0; 8];
        assert!(memory.refresh(&mut LookBudget::default()));
        assert_eq!(memory.read(later.as_ptr() as u64, &mut buffer), 8);
        assert_eq!(buffer, [7; 8]);
    }

    #[test]
    fn where_no_memory_is_nothing_is_read() {
        let memory = own();
        let mut buffer = [0; 8];
        for address in [
            0,
            1,
            4096,
            u64::MAX,
            u64::MAX - 4,
            1 << 63,
            0xffff_8000_0000_0000,
        ] {
            assert_eq!(memory.read(address, &mut buffer), 0, "{address:#x}");
        }
    }

    #[test]
    fn mappings_are_not_read_all_the_time() {
        let mut budget = LookBudget::default();
        let looks = (0..2 * MAX_LOOKS).filter(|_| budget.spend()).count();
        // One more for each tenth of a second that this took.
        assert!((64..100).contains(&looks), "{looks}");
    }

    #[test]
    fn code_is_known_as_such() {
        let code = own as fn() -> Memory as usize as u64;
        let memory = own();
        assert!(memory.holds_code(code));
        assert_eq!(memory.read(code, &mut [0; 8]), 0);
        let text = String::from("no code");
        assert!(!memory.holds_code(text.as_ptr() as u64));
    }

    /// A device's memory is mapped shared, and so is this.
    #[test]
    fn shared_memory_is_left_alone() {
        // SAFETY: a new mapping, of which nobody else knows.
        let shared = unsafe {
            libc::mmap(
                ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(shared, libc::MAP_FAILED);
        assert_eq!(own().read(shared as u64, &mut [0; 8]), 0);
        // SAFETY: the mapping made above, which nothing refers to.
        unsafe { libc::munmap(shared, 4096) };
    }

    #[test]
    fn a_read_ends_where_memory_does() {
        // SAFETY: a new mapping, of which nobody else knows.
        let pages = unsafe {
            libc::mmap(
                ptr::null_mut(),
                3 * 4096,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(pages, libc::MAP_FAILED);
        let middle = pages.wrapping_byte_add(4096);
        // SAFETY: the second page of the mapping made above.
        let made = unsafe { libc::mprotect(middle, 4096, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(made, 0);
        let memory = own();
        assert_eq!(memory.read(middle as u64 + 4090, &mut [1; 64]), 6);
        assert_eq!(memory.read(pages as u64, &mut [1; 64]), 0);
        // SAFETY: as above, nothing refers to it.
        unsafe { libc::munmap(pages, 3 * 4096) };
    }
}
