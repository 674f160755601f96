//! Blocks of other processes.

use super::{driver, runtime};
use crate::{
    api::{Api, Effect, Family, Probe},
    value::{Field, arg, int, out, out_fingerprint, stack_fingerprint},
};

pub(super) const ROWS: [Api; 6] = [
    runtime(
        &["cudaIpcGetMemHandle"],
        Family::Memory,
        Effect::IpcExport,
        &[out_fingerprint(0, Field::Handle), arg(1, Field::Address)],
    )
    .doc("Shows a block to other processes"),
    runtime(
        &["cudaIpcOpenMemHandle"],
        Family::Memory,
        Effect::IpcOpen,
        &[
            out(0, Field::Address),
            stack_fingerprint(0, Field::Handle),
            int(1, Field::Option),
        ],
    )
    .doc("Opens another process's block"),
    runtime(
        &["cudaIpcCloseMemHandle"],
        Family::Memory,
        Effect::IpcClose,
        &[arg(0, Field::Address)],
    )
    .probe(Probe::EntryAndReturn)
    .doc("Closes another process's block"),
    driver(
        &["cuIpcGetMemHandle"],
        Family::Memory,
        Effect::IpcExport,
        &[out_fingerprint(0, Field::Handle), arg(1, Field::Address)],
    )
    .doc("Shows a block to other processes"),
    driver(
        &["cuIpcOpenMemHandle_v2"],
        Family::Memory,
        Effect::IpcOpen,
        &[
            out(0, Field::Address),
            stack_fingerprint(0, Field::Handle),
            int(1, Field::Option),
        ],
    )
    .doc("Opens another process's block"),
    driver(
        &["cuIpcCloseMemHandle"],
        Family::Memory,
        Effect::IpcClose,
        &[arg(0, Field::Address)],
    )
    .probe(Probe::EntryAndReturn)
    .doc("Closes another process's block"),
];
