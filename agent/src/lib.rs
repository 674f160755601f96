//! The agent as a library: what the `cudasnoop` command is made of, within reach of tests.
//!
//! [`doctor`] says whether tracing can work here, [`discover`] finds processes and their libraries,
//! [`attach`] puts probes there, [`session`] runs it all and feeds a [`sink`]; [`names`] tells what
//! addresses mean; [`serve`] is the sidecar around a session: metrics, health, an API; `top` shows
//! the same figures on a terminal.

pub mod attach;
pub mod budget;
pub mod cli;
pub mod discover;
pub mod doctor;
mod ebpf_log;
pub mod kernel;
mod log;
pub mod names;
mod priority;
pub mod programs;
mod ring_fill;
pub mod serve;
pub mod session;
pub mod sink;
#[cfg(feature = "tui")]
pub mod top;
