//! Device code that the program loads itself, since CUDA 12.8.

use std::ffi::{c_char, c_void};

use fake_cuda_core::{Code, exports};

use crate::device::ready;

exports! {
    versioned;

    /// Loads device code from memory.
    fn cudaLibraryLoadData(
        library: *mut usize, code: *const c_void, jit_options: *const c_void,
        jit_values: *const c_void, jit_count: u32, options: *const c_void, values: *const c_void,
        count: u32,
    ) {
        let load = ready()?.functions.library_load_data;
        // SAFETY: the driver's function and the caller's pointers, as the real one requires.
        Code::outcome(unsafe {
            load(library, code, jit_options, jit_values, jit_count, options, values, count)
        })
    }

    /// Loads device code from a file.
    fn cudaLibraryLoadFromFile(
        library: *mut usize, path: *const c_char, jit_options: *const c_void,
        jit_values: *const c_void, jit_count: u32, options: *const c_void, values: *const c_void,
        count: u32,
    ) {
        let load = ready()?.functions.library_load_from_file;
        // SAFETY: the driver's function and the caller's pointers, as the real one requires.
        Code::outcome(unsafe {
            load(library, path, jit_options, jit_values, jit_count, options, values, count)
        })
    }

    /// Unloads device code.
    fn cudaLibraryUnload(library: usize) {
        // SAFETY: the driver's function; the handle is only a number to it.
        Code::outcome(unsafe { (ready()?.functions.library_unload)(library) })
    }

    /// A kernel by name: the driver's handle.
    fn cudaLibraryGetKernel(kernel: *mut usize, library: usize, name: *const c_char) {
        // SAFETY: the driver's function and the caller's pointers, as the real one requires.
        Code::outcome(unsafe { (ready()?.functions.library_get_kernel)(kernel, library, name) })
    }

    /// The kernels of a library.
    fn cudaLibraryEnumerateKernels(kernels: *mut usize, room: u32, library: usize) {
        let enumerate = ready()?.functions.library_enumerate_kernels;
        // SAFETY: the driver's function and the caller's array, as the real one requires.
        Code::outcome(unsafe { enumerate(kernels, room, library) })
    }
}
