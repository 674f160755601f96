//! `transfers`: copies between host and device.

use super::output;
use super::report::{self, Arguments};
use crate::Error;
use crate::transfers::{self, TransferReport};

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let report = TransferReport::of(report::collect(arguments)?);
    output::print(&report, arguments.json, transfers::write)
}
