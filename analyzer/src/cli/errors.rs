//! `errors`: calls that failed.

use super::output;
use super::report::{self, Arguments};
use crate::Error;
use crate::failures::{self, ErrorReport};

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let report = ErrorReport::of(report::collect(arguments)?);
    output::print(&report, arguments.json, failures::write)
}
