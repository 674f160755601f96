//! `launches`: kernels and graphs by how often they are launched.

use super::output;
use super::report::{self, Arguments};
use crate::Error;
use crate::launches::{self, LaunchReport};

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let report = LaunchReport::of(report::collect(arguments)?);
    output::print(&report, arguments.json, launches::write)
}
