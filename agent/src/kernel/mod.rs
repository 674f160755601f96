//! The running kernel: what it is, what it can do, what we may do.

pub mod btf;
mod features;
pub mod open_files;
mod privileges;
mod release;
pub mod return_probes;

pub use features::{AttachMode, Features};
pub use privileges::Privileges;
pub use release::Release;
