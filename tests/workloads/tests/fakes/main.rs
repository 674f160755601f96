//! The fake CUDA libraries and the workloads, tested against each other and against facts
//! about the real libraries.

mod behaviour;
mod caller;
mod exports;
mod fake_cuda;
mod truth;
