//! The two smallest eBPF programs: what a probe costs that does nothing.
#![no_std]
#![no_main]

use aya_ebpf::{
    macros::{uprobe, uretprobe},
    programs::{ProbeContext, RetProbeContext},
};

#[uprobe(multi)]
pub(crate) fn empty_entry(_: ProbeContext) -> u32 {
    0
}

#[uretprobe(multi)]
pub(crate) fn empty_return(_: RetProbeContext) -> u32 {
    0
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: the programs contain no panic.
    unsafe { core::hint::unreachable_unchecked() }
}
