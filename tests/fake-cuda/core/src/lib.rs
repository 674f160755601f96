//! What the fake CUDA libraries share: counted calls, settings from the environment,
//! exports with the prologue of the real libraries, and a little of CUDA's ABI.
//!
//! x86-64 Linux only. The libraries are test doubles: they keep CUDA's books and touch no
//! device. `README.md` beside this crate says what they promise.

pub mod abi;
pub mod call;
mod export;
pub mod layout;
pub mod settings;

pub use abi::{Code, DefaultStream, Outcome};
pub use call::Call;
