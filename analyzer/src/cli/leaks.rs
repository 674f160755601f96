//! `leaks`: memory that grows.

use super::output;
use super::report::{self, Arguments};
use crate::Error;
use crate::growth::{self, LeakReport};

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let report = LeakReport::of(report::collect(arguments)?);
    output::print(&report, arguments.json, growth::write)
}
