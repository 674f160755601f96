//! The dynamic linker's `_dl_debug_state`: every dlopen passes it once its objects are mapped
//! and before their constructors run. Here a traced process shows new libraries, and our own
//! command is stopped for the moment that attaching to a CUDA library takes.
//!
//! Layouts are those of <link.h> (`struct r_debug`, `struct link_map`) and <elf.h>, which are
//! ABI.

use core::ffi::c_void;

use agent_common::{Header, RecordKind, TaskRecord};
use aya_ebpf::{
    bindings::BPF_RB_FORCE_WAKEUP,
    helpers::generated::{bpf_loop, bpf_probe_read_user_str, bpf_send_signal},
    programs::ProbeContext,
};

use crate::{
    calls::entry_programs,
    config,
    hit::{self, Hit, count, now, read},
    ids::Ids,
    maps::{LINK_MAPS, PATH_SCRATCH, RING},
};

/// `RT_CONSISTENT`: the list of objects is whole.
const RT_CONSISTENT: u32 = 0;
/// `RT_DELETE`: an object is about to leave.
const RT_DELETE: u32 = 2;
/// Most objects that are looked at.
const MAX_OBJECTS: u32 = 4096;
const SIGSTOP: u32 = 19;

/// `struct r_debug` up to its state.
#[derive(Clone, Copy)]
#[repr(C)]
struct RDebug {
    version: u64,
    map: u64,
    breakpoint: u64,
    state: u32,
    padding: u32,
}

/// The public part of `struct link_map`.
#[derive(Clone, Copy)]
#[repr(C)]
struct LinkMap {
    address: u64,
    name: u64,
    dynamic: u64,
    next: u64,
}

/// The walk over new objects.
#[repr(C)]
struct Walk {
    next: u64,
    last: u64,
    new: u64,
    cuda: u64,
}

#[inline(always)]
fn mapped_entry(ctx: &ProbeContext) -> Option<()> {
    let hit = Hit::new(ctx)?;
    // The site of the linker has no text bounds; there stands how far `_r_debug` is from here.
    let r_debug = hit::instruction_pointer(ctx).wrapping_add(hit.site.text_before);
    let RDebug { map, state, .. } = read::<RDebug>(r_debug)?;
    let tgid = hit::tgid(hit.pid_tgid);
    if state == RT_DELETE {
        // What was looked at last may be the one that goes: begin anew next time.
        let _ = LINK_MAPS.remove(&tgid);
        return None;
    }
    if state != RT_CONSISTENT {
        return None;
    }
    // SAFETY: the value is copied at once.
    let seen = unsafe { LINK_MAPS.get(&tgid) }.copied().unwrap_or(0);
    let first = if seen == 0 {
        map
    } else {
        read::<LinkMap>(seen)?.next
    };
    let mut walk = Walk {
        next: first,
        last: seen,
        new: 0,
        cuda: 0,
    };
    // SAFETY: the callback takes the context that it is given here.
    unsafe {
        bpf_loop(
            MAX_OBJECTS,
            look_at_object as *mut c_void,
            (&raw mut walk).cast(),
            0,
        );
    }
    if walk.new == 0 {
        return None;
    }
    let _ = LINK_MAPS.insert(&tgid, &walk.last, 0);
    report(&hit, walk.cuda != 0);
    None
}

/// One object of the list. 1 ends the walk.
extern "C" fn look_at_object(_index: u32, walk: *mut Walk) -> u64 {
    // SAFETY: `bpf_loop` passes what `mapped_entry` gave it.
    let walk = unsafe { &mut *walk };
    if walk.next == 0 {
        return 1;
    }
    let Some(object) = read::<LinkMap>(walk.next) else {
        return 1;
    };
    walk.last = walk.next;
    walk.next = object.next;
    walk.new += 1;
    if is_cuda_path(object.name) || is_cuda_soname(&object) {
        walk.cuda = 1;
    }
    0
}

/// Bytes of a path's end that are looked at: `/libcudart-0123abcd.so.11.0` and more.
const TAIL: usize = 48;

/// Whether the file's name begins with `libcuda` or `libc10`.
#[inline(always)]
fn is_cuda_path(name: u64) -> bool {
    let Some(scratch) = PATH_SCRATCH.get_ptr_mut(0) else {
        return false;
    };
    // Only for the length: another thread may use the scratch space at the same time.
    // SAFETY: the helper writes at most the size of the scratch space.
    let length = unsafe {
        bpf_probe_read_user_str(
            scratch.cast(),
            4096,
            core::ptr::with_exposed_provenance(name as usize),
        )
    };
    if length <= 1 {
        return false;
    }
    let skip = (length as u64).saturating_sub(TAIL as u64);
    let Some(tail) = read::<[u8; TAIL]>(name + skip) else {
        return false;
    };
    (skip == 0 && begins_like_cuda(&tail, 0)) || contains_cuda(&tail)
}

#[inline(always)]
fn contains_cuda(tail: &[u8; TAIL]) -> bool {
    let mut found = false;
    let mut at = 0;
    while at < TAIL - 8 {
        found |= tail[at] == b'/' && begins_like_cuda(tail, at + 1);
        at += 1;
    }
    found
}

#[inline(always)]
fn begins_like_cuda(name: &[u8], at: usize) -> bool {
    name[at] == b'l'
        && name[at + 1] == b'i'
        && name[at + 2] == b'b'
        && name[at + 3] == b'c'
        && ((name[at + 4] == b'u' && name[at + 5] == b'd' && name[at + 6] == b'a')
            || (name[at + 4] == b'1' && name[at + 5] == b'0'))
}

const DT_STRTAB: u64 = 5;
const DT_SONAME: u64 = 14;
/// Dynamic entries read at a time, and how many times: the tags wanted come early.
const CHUNK: usize = 8;
const CHUNKS: u64 = 6;

/// Whether the file calls itself `libcuda...` or `libc10...`, whatever its name is.
#[inline(always)]
fn is_cuda_soname(object: &LinkMap) -> bool {
    let (mut strtab, mut soname) = (0, u64::MAX);
    let mut chunk = 0;
    while chunk < CHUNKS {
        let Some(entries) = read::<[[u64; 2]; CHUNK]>(object.dynamic + chunk * (CHUNK as u64) * 16)
        else {
            break;
        };
        let mut index = 0;
        while index < CHUNK {
            let [tag, value] = entries[index];
            if tag == DT_STRTAB {
                strtab = value;
            } else if tag == DT_SONAME {
                soname = value;
            }
            index += 1;
        }
        chunk += 1;
    }
    if strtab == 0 || soname == u64::MAX {
        return false;
    }
    // The linker makes the entry an address, but where the section is read-only.
    if strtab < object.address {
        strtab += object.address;
    }
    read::<[u8; 8]>(strtab.wrapping_add(soname)).is_some_and(|name| begins_like_cuda(&name, 0))
}

/// Tells user space, and stops the process where that is wanted. In this order: a process is
/// never stopped without a record that says so.
#[inline(always)]
fn report(hit: &Hit, cuda: bool) {
    let ids = Ids::current();
    let Some(mut entry) = RING.reserve::<TaskRecord>(0) else {
        count!(hit.counters, lost_extra, 1);
        return;
    };
    let mut kind = RecordKind::Mapped;
    if cuda && config::hold() != 0 && ids.known {
        // SAFETY: no pointers. The signal arrives before the probed function goes on.
        if unsafe { bpf_send_signal(SIGSTOP) } == 0 {
            kind = RecordKind::Held;
        }
    }
    let pid = if hit.scope == 0 { ids.pid } else { hit.scope };
    entry.write(TaskRecord {
        header: Header {
            timestamp: now(),
            pid,
            tid: ids.tid,
            kind: kind as u8,
            reserved: 0,
            api: 0,
            flags: 0,
        },
        child: u64::from(cuda),
    });
    entry.submit(BPF_RB_FORCE_WAKEUP.into());
}

entry_programs!(mapped_entry, mapped_entry_multi, mapped_entry_single);
