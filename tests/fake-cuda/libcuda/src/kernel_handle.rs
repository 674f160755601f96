//! What a kernel handle points to.

use std::{
    collections::HashMap,
    ffi::{CStr, c_char},
    sync::{LazyLock, Mutex, PoisonError},
};

/// What a handle stands for: the first word of what it points to.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(crate) enum Kind {
    /// A `CUfunction`.
    Function = 0x1_0000_0001,
    /// A `CUkernel`.
    Kernel = 2,
    /// No kernel.
    Other = 3,
}

/// As driver 580.159.04 has it on an H200, as far as cudasnoop looks: a word that all handles of a kind
/// have in common, and a pointer to the name.
#[repr(C)]
struct Handle {
    kind: u64,
    name: *const c_char,
    rest: [u64; 62],
}

/// Functions that were given out by no call, by their module; under 0 those whose module is gone.
static HIDDEN: LazyLock<Mutex<HashMap<usize, Vec<usize>>>> = LazyLock::new(Mutex::default);

/// A new handle, never freed; nor is its name.
pub(crate) fn new(kind: Kind, name: &CStr) -> usize {
    let handle = Handle {
        kind: kind as u64,
        name: name.to_owned().into_raw(),
        rest: [0; 62],
    };
    Box::into_raw(Box::new(handle)) as usize
}

/// The name of a handle.
///
/// # Safety
/// [`new`] or [`hidden`] made it.
pub(crate) unsafe fn name(handle: usize) -> *const c_char {
    // SAFETY: as the caller promises, and none is ever freed.
    unsafe { (*(handle as *const Handle)).name }
}

/// A function that no call gives out, at the address of one whose module is gone, if there is one.
pub(crate) fn hidden(module: usize, name: &CStr) -> usize {
    let mut hidden = HIDDEN.lock().unwrap_or_else(PoisonError::into_inner);
    let handle = match hidden.entry(0).or_default().pop() {
        Some(freed) => {
            // SAFETY: one made here, which nobody may use any more.
            unsafe { (*(freed as *mut Handle)).name = name.to_owned().into_raw() };
            freed
        }
        None => new(Kind::Function, name),
    };
    hidden.entry(module).or_default().push(handle);
    handle
}

/// The module is gone.
pub(crate) fn release(module: usize) {
    let mut hidden = HIDDEN.lock().unwrap_or_else(PoisonError::into_inner);
    let freed = hidden.remove(&module).unwrap_or_default();
    hidden.entry(0).or_default().extend(freed);
}
