//! `syncs`: waits of the host for the device.

use super::output;
use super::report::{self, Arguments};
use crate::Error;
use crate::syncs::{self, SyncReport};

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let report = SyncReport::of(report::collect(arguments)?);
    output::print(&report, arguments.json, syncs::write)
}
