//! The running kernel: what it is, what it can do, what we may do.

pub mod btf;
mod features;
pub mod open_files;
pub mod privileges;

pub use features::{AttachMode, Features};
