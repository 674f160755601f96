//! Copies to and from variables of device code: plain copies, once the address is known.

use fake_cuda_core::exports;

use crate::{
    copy::{copy, copy_async},
    variables::address_of,
};

exports! {
    versioned;

    /// Copies to a variable.
    fn cudaMemcpyToSymbol | cudaMemcpyToSymbol_ptds [default] (
        symbol: usize, from: u64, size: usize, offset: usize, kind: i32,
    ) {
        copy(default, address_of(symbol)? + offset as u64, from, size, kind)
    }

    /// Copies to a variable in a stream.
    fn cudaMemcpyToSymbolAsync | cudaMemcpyToSymbolAsync_ptsz [default] (
        symbol: usize, from: u64, size: usize, offset: usize, kind: i32, stream: usize,
    ) {
        copy_async(default, address_of(symbol)? + offset as u64, from, size, kind, stream)
    }

    /// Copies from a variable.
    fn cudaMemcpyFromSymbol | cudaMemcpyFromSymbol_ptds [default] (
        to: u64, symbol: usize, size: usize, offset: usize, kind: i32,
    ) {
        copy(default, to, address_of(symbol)? + offset as u64, size, kind)
    }

    /// Copies from a variable in a stream.
    fn cudaMemcpyFromSymbolAsync | cudaMemcpyFromSymbolAsync_ptsz [default] (
        to: u64, symbol: usize, size: usize, offset: usize, kind: i32, stream: usize,
    ) {
        copy_async(default, to, address_of(symbol)? + offset as u64, size, kind, stream)
    }
}
