//! Blocks of other processes.

use fake_cuda_core::{Code, exports, layout::SharedHandle};

use crate::device::ready;

exports! {
    versioned;

    /// Shows a block to other processes.
    fn cudaIpcGetMemHandle(handle: *mut SharedHandle, address: u64) {
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { (ready()?.functions.ipc_get_mem_handle)(handle, address) })
    }

    /// Opens another process's block.
    fn cudaIpcOpenMemHandle(address: *mut u64, handle: SharedHandle, flags: u32) {
        let open = ready()?.functions.ipc_open_mem_handle;
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { open(address, handle, flags) })
    }

    /// Closes it.
    fn cudaIpcCloseMemHandle(address: u64) {
        // SAFETY: the driver's function; the address is only a number to it.
        Code::outcome(unsafe { (ready()?.functions.ipc_close_mem_handle)(address) })
    }
}
