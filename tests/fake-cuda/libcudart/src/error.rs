//! The thread's last error, and the texts of errors.

use std::{
    cell::Cell,
    ffi::{CStr, c_char},
};

use fake_cuda_core::{Code, exports};

thread_local! {
    static LAST: Cell<i32> = const { Cell::new(0) };
}

/// Notes an error that a call is about to return.
#[cold]
pub(crate) fn remember(code: Code) {
    LAST.set(code.0);
}

/// Name and text of an error.
fn texts(code: i32) -> (&'static CStr, &'static CStr) {
    match code {
        0 => (c"cudaSuccess", c"fake CUDA: no error"),
        1 => (c"cudaErrorInvalidValue", c"fake CUDA: invalid argument"),
        2 => (c"cudaErrorMemoryAllocation", c"fake CUDA: out of memory"),
        9 => (
            c"cudaErrorInvalidConfiguration",
            c"fake CUDA: invalid configuration argument",
        ),
        35 => (
            c"cudaErrorInsufficientDriver",
            c"fake CUDA: no libcuda.so.1 was found",
        ),
        98 => (
            c"cudaErrorInvalidDeviceFunction",
            c"fake CUDA: the kernel was never registered",
        ),
        101 => (
            c"cudaErrorInvalidDevice",
            c"fake CUDA: invalid device ordinal",
        ),
        400 => (
            c"cudaErrorInvalidResourceHandle",
            c"fake CUDA: invalid resource handle",
        ),
        700 => (
            c"cudaErrorIllegalAddress",
            c"fake CUDA: an illegal memory access was asked for",
        ),
        _ => (
            c"cudaErrorUnknown",
            c"fake CUDA: an error without a text here",
        ),
    }
}

exports! {
    versioned;

    /// The thread's last error, which is forgotten.
    @raw fn cudaGetLastError() -> i32 {
        LAST.replace(0)
    }

    /// The thread's last error.
    @raw fn cudaPeekAtLastError() -> i32 {
        LAST.get()
    }

    /// What an error means.
    @raw fn cudaGetErrorString(code: i32) -> *const c_char {
        texts(code).1.as_ptr()
    }

    /// What an error is called.
    @raw fn cudaGetErrorName(code: i32) -> *const c_char {
        texts(code).0.as_ptr()
    }
}
