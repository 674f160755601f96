//! The kernel's own structures. Which offsets their fields have is told by user space, from the
//! kernel's BTF.

use aya_ebpf::helpers::bpf_probe_read_kernel;

/// A field of a structure; `None` where its offset is not known (0).
#[inline(always)]
pub(crate) fn field<T>(structure: u64, offset: u64) -> Option<T> {
    if offset == 0 {
        return None;
    }
    read(structure.wrapping_add(offset))
}

/// An integer.
#[inline(always)]
pub(crate) fn read<T>(address: u64) -> Option<T> {
    // SAFETY: the helper checks the address; only integers are read.
    unsafe { bpf_probe_read_kernel(core::ptr::with_exposed_provenance(address as usize)) }.ok()
}
