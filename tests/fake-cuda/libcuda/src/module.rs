//! Modules, libraries and kernels. Nothing is loaded: a handle stands for whatever the caller
//! says that it loaded, and every kernel name is found.

use std::{
    collections::HashMap,
    ffi::{CStr, CString, OsStr, c_char, c_void},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    sync::{LazyLock, Mutex, PoisonError},
};

use fake_cuda_core::{Code, Outcome, abi::store, exports};

use crate::{
    context,
    devices::Device,
    kernel_handle::{self, Kind},
    new_handle,
};

/// Kernel handles of a module or library and their names; looking a name up twice gives one
/// handle.
static KERNELS: LazyLock<Mutex<HashMap<(usize, CString), usize>>> = LazyLock::new(Mutex::default);

/// Bytes of every variable.
const VARIABLE: usize = 64 << 10;
/// Variables by handle and device: where they are.
static VARIABLES: LazyLock<Mutex<HashMap<(usize, i32), u64>>> = LazyLock::new(Mutex::default);

fn load(handle: *mut usize, image: *const c_void) -> Outcome {
    if image.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: the caller's pointer, as the real functions require.
    unsafe { store(handle, new_handle()) }
}

/// A file is loaded if it is there; nobody reads it.
fn load_file(handle: *mut usize, path: *const c_char) -> Outcome {
    if path.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and a string of the caller, as the real functions require.
    let path = unsafe { CStr::from_ptr(path) };
    if !Path::new(OsStr::from_bytes(path.to_bytes())).exists() {
        return Err(Code::FILE_NOT_FOUND);
    }
    // SAFETY: the caller's pointer, as the real functions require.
    unsafe { store(handle, new_handle()) }
}

/// Kernels of a module or library that were looked up: there are no others here.
fn enumerate(kernels: *mut usize, room: u32, container: usize) -> Outcome {
    if kernels.is_null() || container == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let known = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    let of_container = known
        .iter()
        .filter(|((other, _), _)| *other == container)
        .map(|(_, kernel)| *kernel);
    for (index, kernel) in of_container.take(room as usize).enumerate() {
        // SAFETY: the caller's array has `room` elements, as the real functions require.
        unsafe { kernels.add(index).write(kernel) };
    }
    Ok(())
}

fn look_up(kernel: *mut usize, container: usize, name: *const c_char, kind: Kind) -> Outcome {
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
        .or_insert_with(|| kernel_handle::new(kind, name));
    // SAFETY: the caller's pointer, as the real functions require.
    unsafe { store(kernel, handle) }
}

fn name_of(name: *mut *const c_char, handle: usize) -> Outcome {
    let kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    if !kernels.values().any(|known| *known == handle) {
        return Err(Code::INVALID_HANDLE);
    }
    // SAFETY: a handle that was made here; the caller's pointer, as the real functions require.
    unsafe { store(name, kernel_handle::name(handle)) }
}

/// The function of a kernel in the current context, under the kernel's own name.
fn function_of(function: *mut usize, kernel: usize) -> Outcome {
    let mut name = std::ptr::null();
    name_of(&raw mut name, kernel)?;
    look_up(function, kernel, name, Kind::Function)
}

/// Every variable is found on the current device, and has [`VARIABLE`] bytes.
fn variable(address: *mut u64, size: *mut usize, container: usize, name: *const c_char) -> Outcome {
    let device = context::current()?;
    let mut key = 0;
    look_up(&raw mut key, container, name, Kind::Other)?;
    let mut variables = VARIABLES.lock().unwrap_or_else(PoisonError::into_inner);
    let found = match variables.get(&(key, device.ordinal())) {
        Some(found) => *found,
        None => device
            .memory()
            .take(VARIABLE as u64)
            .ok_or(Code::OUT_OF_MEMORY)?,
    };
    variables.insert((key, device.ordinal()), found);
    if !size.is_null() {
        // SAFETY: not null, and the caller's pointer, as the real functions require.
        unsafe { size.write(VARIABLE) };
    }
    // SAFETY: the caller's pointer, as the real functions require.
    unsafe { store(address, found) }
}

/// Forgets where variables are on a device.
pub(crate) fn forget(device: &Device) {
    let mut variables = VARIABLES.lock().unwrap_or_else(PoisonError::into_inner);
    variables.retain(|(_, ordinal), _| *ordinal != device.ordinal());
}

exports! {
    unversioned;

    /// Finds any variable.
    fn cuModuleGetGlobal_v2(
        address: *mut u64, size: *mut usize, module: usize, name: *const c_char,
    ) {
        variable(address, size, module, name)
    }

    /// Finds any variable.
    fn cuLibraryGetGlobal(
        address: *mut u64, size: *mut usize, library: usize, name: *const c_char,
    ) {
        variable(address, size, library, name)
    }

    /// Loads anything.
    fn cuModuleLoadData(module: *mut usize, image: *const c_void) {
        context::current()?;
        load(module, image)
    }

    /// Loads any file.
    fn cuModuleLoad(module: *mut usize, path: *const c_char) {
        context::current()?;
        load_file(module, path)
    }

    /// Loads anything; options mean nothing here.
    fn cuModuleLoadDataEx(
        module: *mut usize, image: *const c_void, _count: u32, _options: *const c_void,
        _values: *const c_void,
    ) {
        context::current()?;
        load(module, image)
    }

    /// Loads anything.
    fn cuModuleLoadFatBinary(module: *mut usize, image: *const c_void) {
        context::current()?;
        load(module, image)
    }

    /// The kernels that were looked up in the module.
    fn cuModuleEnumerateFunctions(functions: *mut usize, room: u32, module: usize) {
        enumerate(functions, room, module)
    }

    /// Handles that were looked up stay valid; others may be used again.
    fn cuModuleUnload(module: usize) {
        context::current()?;
        kernel_handle::release(module);
        Ok(())
    }

    /// Finds any kernel.
    fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) {
        context::current()?;
        look_up(function, module, name, Kind::Function)
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

    /// Loads any file, for all devices.
    fn cuLibraryLoadFromFile(
        library: *mut usize,
        path: *const c_char,
        _jit_options: *const c_void,
        _jit_values: *const c_void,
        _jit_count: u32,
        _options: *const c_void,
        _values: *const c_void,
        _count: u32,
    ) {
        load_file(library, path)
    }

    /// The library's module in the current context: a handle of its own.
    fn cuLibraryGetModule(module: *mut usize, library: usize) {
        context::current()?;
        look_up(module, library, c"module of the current context".as_ptr(), Kind::Other)
    }

    /// The kernels that were looked up in the library.
    fn cuLibraryEnumerateKernels(kernels: *mut usize, room: u32, library: usize) {
        enumerate(kernels, room, library)
    }

    /// Forgets nothing: handles stay valid.
    fn cuLibraryUnload(_library: usize) {
        Ok(())
    }

    /// Finds any kernel.
    fn cuLibraryGetKernel(kernel: *mut usize, library: usize, name: *const c_char) {
        look_up(kernel, library, name, Kind::Kernel)
    }

    /// The kernel's function in the current context: another handle than the kernel's.
    fn cuKernelGetFunction(function: *mut usize, kernel: usize) {
        context::current()?;
        function_of(function, kernel)
    }

    /// The name that the kernel was looked up by.
    fn cuKernelGetName(name: *mut *const c_char, kernel: usize) {
        name_of(name, kernel)
    }

    /// The name that the function, or the kernel that it is a function of, was looked up by.
    fn cuFuncGetName(name: *mut *const c_char, function: usize) {
        name_of(name, function)
    }

    /// Gives a function of a module as the driver gives them to cuFFT: by no call that can be
    /// seen. There in the fake alone.
    @raw fn fake_cuda_hidden_function(module: usize, name: *const c_char) -> usize {
        // SAFETY: a string of the caller.
        kernel_handle::hidden(module, unsafe { CStr::from_ptr(name) })
    }
}
