//! What is wrong with a pickle.

use std::io;

/// Why a snapshot could not be read. `offset` is the byte where reading stopped.
#[derive(Debug, thiserror::Error)]
pub enum PickleError {
    /// The file could not be read.
    #[error("reading failed at byte {offset}: {source}")]
    Io {
        /// Where.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// It ends before its last opcode.
    #[error(
        "the pickle ends in the middle, at byte {offset}: it was cut off; dump or copy it again"
    )]
    Truncated {
        /// Where.
        offset: u64,
    },
    /// It does not begin as pickles of protocol 2 to 5 do.
    #[error(
        "this is no pickle of protocol 2 to 5 (its first byte is {first:#04x}): expected what \
         torch.cuda.memory._dump_snapshot() writes"
    )]
    NotAPickle {
        /// The first byte.
        first: u8,
    },
    /// A protocol of the future.
    #[error("pickle protocol {protocol} is not supported: protocols 2 to 5 are")]
    Protocol {
        /// Its number.
        protocol: u8,
    },
    /// It asks for code to be run.
    #[error(
        "opcode {opcode} at byte {offset} loads or runs code: a snapshot holds only data, so this \
         is none (nothing was run)"
    )]
    Code {
        /// Where.
        offset: u64,
        /// The opcode's name in Python's `pickletools`.
        opcode: &'static str,
    },
    /// An opcode that no snapshot has.
    #[error("unexpected opcode {opcode:#04x} at byte {offset}: no snapshot of PyTorch has it")]
    Opcode {
        /// Where.
        offset: u64,
        /// The opcode.
        opcode: u8,
    },
    /// Opcodes that do not fit together.
    #[error("the pickle is damaged at byte {offset}: {what}")]
    Malformed {
        /// Where.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// More of something than any snapshot has.
    #[error("{what} at byte {offset} is larger than any snapshot's: reading stopped")]
    TooLarge {
        /// Where.
        offset: u64,
        /// What.
        what: &'static str,
    },
    /// A good pickle of something else.
    #[error("this pickle is no snapshot (read to byte {offset}): {what}")]
    NotASnapshot {
        /// Where.
        offset: u64,
        /// What is missing.
        what: &'static str,
    },
}
