//! Kernels: host stubs with the names that nvcc would give them, in this program's `.symtab`,
//! registered with the runtime as nvcc's constructors do it.
//!
//! A stub is only an address here. Each body differs, so that no two are merged.

use std::{
    ffi::{CStr, c_void},
    hint::black_box,
};

/// A kernel of these programs.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// The host stub.
    pub stub: extern "C" fn(),
    /// The mangled name: the stub's symbol, and the kernel's name in device code.
    pub mangled: &'static CStr,
}

impl Kernel {
    /// The stub's address: the kernel, to the runtime.
    pub fn address(&self) -> usize {
        self.stub as usize
    }
}

/// Stands for the fat binary that nvcc would embed; nobody reads it.
static FAT_BINARY: u64 = 0x466_243b1;

/// What is given to `__cudaRegisterFatBinary` and `cuModuleLoadData`.
pub fn fat_binary() -> *const c_void {
    (&raw const FAT_BINARY).cast()
}

macro_rules! kernels {
    ($($(#[$doc:meta])* $constant:ident $stub:ident $mangled:literal $distinct:literal;)*) => {
        $(
            $(#[$doc])*
            pub static $constant: Kernel = Kernel {
                stub: $stub,
                mangled: match CStr::from_bytes_with_nul(concat!($mangled, "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a mangled name has no NUL"),
                },
            };

            #[unsafe(export_name = $mangled)]
            extern "C" fn $stub() {
                black_box($distinct);
            }
        )*

        /// All kernels.
        pub static ALL: &[&Kernel] = &[$(&$constant),*];
    };
}

kernels! {
    /// `embed_kernel(float*, float const*, int const*, int)`
    EMBED embed "_Z12embed_kernelPfPKfPKii" 1;
    /// `rms_norm_kernel(float*, float const*, float const*, float, int)`
    RMS_NORM rms_norm "_Z15rms_norm_kernelPfPKfS1_fi" 2;
    /// `gemm_kernel(float*, float const*, float const*, int, int, int)`
    GEMM gemm "_Z11gemm_kernelPfPKfS1_iii" 3;
    /// `rotary_kernel(float*, float const*, int)`
    ROTARY rotary "_Z13rotary_kernelPfPKfi" 4;
    /// `cache_kernel(float*, float const*, int)`
    CACHE cache "_Z12cache_kernelPfPKfi" 5;
    /// `attention_kernel(float*, float const*, float const*, float const*, int)`
    ATTENTION attention "_Z16attention_kernelPfPKfS1_S1_i" 6;
    /// `silu_mul_kernel(float*, float const*, int)`
    SILU_MUL silu_mul "_Z15silu_mul_kernelPfPKfi" 7;
    /// `sample_kernel(int*, float const*, int)`
    SAMPLE sample "_Z13sample_kernelPiPKfi" 8;
    /// `decode_kernel(float*, int)`
    DECODE decode "_Z13decode_kernelPfi" 9;
}
