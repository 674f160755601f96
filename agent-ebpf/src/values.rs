//! A call's values: out of registers, the stack and the target's memory, where its
//! [`Site`] says.

use agent_common::{MAX_VALUES, Pending, Place, PlaceKind, Site, fingerprint, flags};
use aya_ebpf::programs::ProbeContext;

use crate::hit::{read, stack_pointer};

/// Reads what is there at entry into `words`; in place of what is there only at return, its
/// address. Gives the flag for what could not be read.
#[inline(always)]
pub(crate) fn at_entry(
    ctx: &ProbeContext,
    site: &Site,
    registers: [u64; 6],
    words: &mut [u64; MAX_VALUES],
) -> u32 {
    let [a, b, c, d, e, f] = registers;
    // A power of two: the index is masked for the verifier.
    let registers = [a, b, c, d, e, f, 0, 0];
    let sp = stack_pointer(ctx);
    let mut unread = 0;
    for (index, word) in words.iter_mut().enumerate() {
        if index >= usize::from(site.values) {
            break;
        }
        let place = site.places[index];
        let register = registers[usize::from(place.argument & 7)];
        match at_place(place, register, sp) {
            Some(value) => *word = value,
            None => {
                *word = 0;
                unread = flags::ARGS_UNREAD;
            }
        }
    }
    unread
}

#[inline(always)]
fn at_place(place: Place, register: u64, sp: u64) -> Option<u64> {
    let behind = register.wrapping_add(u64::from(place.offset));
    // The return address lies at the stack pointer, slot 0 above it.
    let slot = sp.wrapping_add(8 * (u64::from(place.argument) + 1));
    let kind = place.kind as u8;
    if kind == PlaceKind::Register as u8 {
        Some(register)
    } else if kind == PlaceKind::RegisterInt as u8 {
        Some(register & 0xffff_ffff)
    } else if kind == PlaceKind::Constant as u8 {
        Some(u64::from(place.argument))
    } else if kind == PlaceKind::Stack as u8 {
        read(slot)
    } else if kind == PlaceKind::StackInt as u8 {
        read::<u32>(slot).map(u64::from)
    } else if kind == PlaceKind::StackFingerprint as u8 {
        read(slot).map(fingerprint)
    } else if register == 0 {
        // A null pointer: no result is wanted, or the call will fail.
        if place.kind.is_out() { Some(0) } else { None }
    } else if kind == PlaceKind::Behind as u8 {
        read(behind)
    } else if kind == PlaceKind::BehindInt as u8 {
        read::<u32>(behind).map(u64::from)
    } else if kind == PlaceKind::CopyEnd as u8 {
        copy_end(behind)
    } else {
        Some(behind)
    }
}

/// Behind a `CUmemorytype` come the host pointer, the device pointer and the array; the type
/// 4 (unified) uses the device pointer.
#[inline(always)]
fn copy_end(address: u64) -> Option<u64> {
    let memory_type: u32 = read(address)?;
    let pointer = match memory_type {
        1 => 1,
        2 | 4 => 2,
        3 => 3,
        _ => return Some(0),
    };
    read(address.wrapping_add(8 * pointer))
}

/// Puts what a successful call left behind pointers in their place; after a failed one,
/// nothing.
#[inline(always)]
pub(crate) fn at_return(site: &Site, call: &mut Pending, result: i32) {
    if site.has_out == 0 {
        return;
    }
    for index in 0..MAX_VALUES {
        if index >= usize::from(site.values) {
            break;
        }
        let kind = site.places[index].kind;
        if !kind.is_out() {
            continue;
        }
        let address = call.args[index];
        call.args[index] = 0;
        if result != 0 {
            continue;
        }
        let value = if kind as u8 == PlaceKind::Out as u8 {
            read(address)
        } else if kind as u8 == PlaceKind::OutInt as u8 {
            read::<u32>(address).map(u64::from)
        } else {
            read(address).map(fingerprint)
        };
        match value {
            Some(value) => call.args[index] = value,
            None => call.flags |= flags::OUT_UNREAD,
        }
    }
}

/// The bytes that a successful call moved or took.
#[inline(always)]
pub(crate) fn bytes(site: &Site, call: &Pending) -> u64 {
    if site.size_mask == 0 {
        return 0;
    }
    let mut product = u64::from(site.size_unit);
    let mut is_first = true;
    for index in 0..MAX_VALUES {
        if u32::from(site.size_mask) >> index & 1 == 0 {
            continue;
        }
        let factor = call.args[index];
        // Rows and layers: none means one.
        product = product.wrapping_mul(if factor == 0 && !is_first { 1 } else { factor });
        is_first = false;
    }
    product
}
