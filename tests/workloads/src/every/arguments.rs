//! Arguments as the words that the System V ABI of x86-64 passes.

use std::{cell::Cell, ffi::c_void, rc::Rc};

/// In unused registers, and above 32-bit arguments.
const RUBBISH: u64 = 0xbad0_5eed_0000_0000;
/// Registers that arguments are passed in.
const REGISTERS: usize = 6;
/// Stack slots that a call fills: as many as the longest list needs.
const SLOTS: usize = 8;

/// A 32-bit argument: rubbish stands above it.
pub const fn int(value: u32) -> u64 {
    RUBBISH | value as u64
}

/// Two 32-bit fields next to each other, the first one lower.
pub const fn pair(first: u32, second: u32) -> u64 {
    first as u64 | (second as u64) << 32
}

/// The arguments of a call.
#[derive(Clone, Debug)]
pub struct Arguments {
    registers: [u64; REGISTERS],
    stack: [u64; SLOTS],
}

/// Arguments in registers, from the first on. What is passed by value on the stack leaves no
/// gap here.
pub fn registers<const N: usize>(words: [u64; N]) -> Arguments {
    let mut registers = [0; REGISTERS];
    for (number, register) in (0_u64..).zip(&mut registers) {
        *register = RUBBISH + (0xf000 + number) * 0x1_0001;
    }
    registers[..N].copy_from_slice(&words);
    Arguments {
        registers,
        stack: [RUBBISH; SLOTS],
    }
}

impl Arguments {
    /// Arguments on the stack, from the first slot on.
    #[must_use]
    pub fn stack<const N: usize>(mut self, words: [u64; N]) -> Self {
        self.stack[..N].copy_from_slice(&words);
        self
    }

    /// Calls a function.
    ///
    /// # Safety
    /// The symbol is a function that returns an `int` and takes these arguments.
    pub unsafe fn pass_to(&self, symbol: *const c_void) -> i32 {
        type Function = unsafe extern "C" fn(
            u64,
            u64,
            u64,
            u64,
            u64,
            u64,
            u64,
            u64,
            u64,
            u64,
            u64,
            u64,
            u64,
            u64,
        ) -> i32;
        let (register, slot) = (self.registers, self.stack);
        // SAFETY: as the caller says; words beyond a function's own arguments are not looked at.
        unsafe {
            let function: Function = std::mem::transmute(symbol);
            function(
                register[0],
                register[1],
                register[2],
                register[3],
                register[4],
                register[5],
                slot[0],
                slot[1],
                slot[2],
                slot[3],
                slot[4],
                slot[5],
                slot[6],
                slot[7],
            )
        }
    }
}

/// Memory of the program that calls read or write: words at an address that stays.
#[derive(Clone, Debug)]
pub struct Memory(Rc<[Cell<u64>]>);

impl Memory {
    /// These words.
    pub fn of<const N: usize>(words: [u64; N]) -> Self {
        Self(words.into_iter().map(Cell::new).collect())
    }

    /// As many words as wanted.
    pub fn from(words: impl IntoIterator<Item = u64>) -> Self {
        Self(words.into_iter().map(Cell::new).collect())
    }

    /// One word, for what a call leaves there. It starts as a value that no call leaves.
    pub fn out() -> Self {
        Self::of([0x0bad_0bad_0bad_0bad])
    }

    /// Its address.
    pub fn at(&self) -> u64 {
        self.0.as_ptr() as u64
    }

    /// The first word.
    ///
    /// # Panics
    /// When there is none.
    pub fn get(&self) -> u64 {
        self.word(0)
    }

    /// One word.
    ///
    /// # Panics
    /// When there is none.
    pub fn word(&self, index: usize) -> u64 {
        self.0[index].get()
    }

    /// All words.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(Cell::get)
    }
}
