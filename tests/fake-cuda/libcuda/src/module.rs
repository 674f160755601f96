//! Modules, libraries and kernels. Nothing is loaded: a handle stands for whatever the caller
//! says that it loaded, and every kernel name is found.

use std::{
    collections::HashMap,
    ffi::{CStr, CString, c_char, c_void},
    sync::{LazyLock, Mutex, PoisonError},
};

use fake_cuda_core::{Code, Outcome, abi::store, exports};

use crate::context;

/// Kernel handles of a module or library and their names; looking a name up twice gives one
/// handle.
static KERNELS: LazyLock<Mutex<HashMap<(usize, CString), usize>>> = LazyLock::new(Mutex::default);

/// A handle that is unlike every other one, and never freed.
fn new_handle() -> usize {
    Box::into_raw(Box::new(0u64)) as usize
}

fn load(handle: *mut usize, image: *const c_void) -> Outcome {
    if image.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: the caller's pointer, as the real functions require.
    unsafe { store(handle, new_handle()) }
}

fn look_up(kernel: *mut usize, container: usize, name: *const c_char) -> Outcome {
    if container == 0 || name.is_null() {
        return Err(Code::INVALID_HANDLE);
    }
    // SAFETY: not null, and a string of the caller, as the real functions require.
    let name = unsafe { CStr::from_ptr(name) };
    if name.is_empty() {
        return Err(Code::NOT_FOUND);
    }
    let mut kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    let handle = *kernels
        .entry((container, name.to_owned()))
        .or_insert_with(new_handle);
    // SAFETY: the caller's pointer, as the real functions require.
    unsafe { store(kernel, handle) }
}

/// Names live as long as the process: no entry ever leaves [`KERNELS`].
fn name_of(name: *mut *const c_char, handle: usize) -> Outcome {
    let kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = kernels.iter().find(|(_, known)| **known == handle);
    let Some(((_, text), _)) = found else {
        return Err(Code::INVALID_HANDLE);
    };
    // SAFETY: the caller's pointer, as the real functions require.
    unsafe { store(name, text.as_ptr()) }
}

exports! {
    unversioned;

    /// Loads anything.
    fn cuModuleLoadData(module: *mut usize, image: *const c_void) {
        context::current()?;
        load(module, image)
    }

    /// Forgets nothing: handles stay valid.
    fn cuModuleUnload(_module: usize) {
        context::current().map(|_| ())
    }

    /// Finds any kernel.
    fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) {
        context::current()?;
        look_up(function, module, name)
    }

    /// Loads anything, for all devices.
    fn cuLibraryLoadData(
        library: *mut usize,
        code: *const c_void,
        _jit_options: *const c_void,
        _jit_values: *const c_void,
        _jit_count: u32,
        _options: *const c_void,
        _values: *const c_void,
        _count: u32,
    ) {
        load(library, code)
    }

    /// Forgets nothing: handles stay valid.
    fn cuLibraryUnload(_library: usize) {
        Ok(())
    }

    /// Finds any kernel.
    fn cuLibraryGetKernel(kernel: *mut usize, library: usize, name: *const c_char) {
        look_up(kernel, library, name)
    }

    /// The kernel's function in the current context: another handle than the kernel's.
    fn cuKernelGetFunction(function: *mut usize, kernel: usize) {
        context::current()?;
        look_up(function, kernel, c"function of the current context".as_ptr())
    }

    /// The name that the kernel was looked up by.
    fn cuKernelGetName(name: *mut *const c_char, kernel: usize) {
        name_of(name, kernel)
    }

    /// The name that the function, or the kernel that it is a function of, was looked up by.
    fn cuFuncGetName(name: *mut *const c_char, function: usize) {
        name_of(name, function)
    }
}
