//! The pickles that `torch.cuda.memory._dump_snapshot` and PyTorch's own C++ code write,
//! protocols 2 to 5, read as a stream.
//!
//! The opcodes that build data are followed; those that load or run code are refused, so
//! nothing in the file can make anything happen. Stack frames, blocks, segments and trace
//! entries are recognized as soon as they are complete and kept in small form: what is held
//! in memory is the distinct names and stacks and the blocks, not the entries.

mod error;
mod machine;
mod memo;
mod opcode;
mod root;
mod shapes;
mod source;
mod value;

pub use error::PickleError;

use std::io::Read;

use super::model::Snapshot;

/// Reads a snapshot.
pub fn read(reader: impl Read) -> Result<Snapshot, PickleError> {
    let mut machine = machine::Machine::new(reader);
    let value = machine.run()?;
    root::snapshot(machine, value)
}
