//! Which program serves which function.

use agent_common::Shape;

/// The programs that calls are caught by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallProgram {
    /// Nearly all.
    Call,
    /// Copies of many blocks.
    Batch,
    /// What matters only while a stream is captured.
    Capture,
    /// Launches.
    Launch,
    /// Kernel lookups.
    Lookup,
    /// Kernels that a program makes known.
    Register,
    /// PyTorch's reports.
    Torch,
}

impl CallProgram {
    /// All.
    pub const ALL: [Self; 7] = [
        Self::Call,
        Self::Batch,
        Self::Capture,
        Self::Launch,
        Self::Lookup,
        Self::Register,
        Self::Torch,
    ];

    /// The one that serves functions of this shape.
    pub const fn of(shape: Shape) -> Self {
        match shape {
            Shape::Values => Self::Call,
            Shape::CopyBatch | Shape::CopyBatch3D => Self::Batch,
            Shape::InCapture => Self::Capture,
            Shape::LaunchRuntime
            | Shape::LaunchRuntimeEx
            | Shape::LaunchDriver
            | Shape::LaunchDriverEx => Self::Launch,
            Shape::KernelByName | Shape::KernelFunction | Shape::KernelName => Self::Lookup,
            Shape::Registration => Self::Register,
            Shape::TorchReport | Shape::TorchOutOfMemory => Self::Torch,
        }
    }

    /// Base name of the program at a call's entry.
    pub const fn entry(self) -> &'static str {
        match self {
            Self::Call => "call_entry",
            Self::Batch => "batch_entry",
            Self::Capture => "capture_entry",
            Self::Launch => "launch_entry",
            Self::Lookup => "lookup_entry",
            Self::Register => "register_entry",
            Self::Torch => "torch_entry",
        }
    }

    /// Base name of the program at its return.
    pub const fn at_return(self) -> &'static str {
        match self {
            Self::Lookup => "lookup_return",
            Self::Call
            | Self::Batch
            | Self::Capture
            | Self::Launch
            | Self::Register
            | Self::Torch => "call_return",
        }
    }
}
