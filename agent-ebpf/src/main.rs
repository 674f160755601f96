//! The eBPF programs, and what they share.
//!
//! Each function's attach point carries a cookie that names its [`agent_common::Site`];
//! everything that differs between functions is in that site, where its arguments are
//! included, so one program serves nearly all of them (`calls`). Launches, PyTorch's reports,
//! kernel lookups and copies of many blocks have their own. Each program exists twice, for
//! multi links and for single uprobes.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod calls;
mod capture;
mod config;
mod copy;
mod emit;
mod hit;
mod ids;
mod kernel;
mod launch;
mod linker;
mod log;
mod maps;
mod module;
mod start;
mod tasks;
mod torch;
mod values;

/// `bpf_probe_read_user` and others are for GPL-compatible programs only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: the programs contain no panic that the compiler could not remove; the verifier
    // would refuse this loop if one were reachable.
    unsafe { core::hint::unreachable_unchecked() }
}
