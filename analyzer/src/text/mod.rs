//! The report as text: 80 columns, for a person who is in a hurry. What is unknown reads
//! `-` or `unknown`.

mod bars;
mod calls;
mod copies;
mod launches;
mod memory;
mod overview;
mod page;
mod style;
mod table;
mod trouble;
mod units;

use std::io::{self, Write};

use crate::findings;
use crate::report::Report;
pub(crate) use bars::write as bars;
pub(crate) use launches::{file_name, kernel_name};
pub(crate) use page::{Page, WIDTH, pieces};
pub(crate) use style::Tone;
pub(crate) use table::{Align, Cell, Table, shortened};

pub use style::Colour;
pub use units::{bytes, count, duration};
pub(crate) use units::{bytes_bound, counted, percent, since};

/// Writes the report.
pub fn write(report: &Report, colour: Colour, output: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(output, colour);
    findings::section(&report.findings, report.recording.start_ns, &mut page)?;
    overview::recording(report, &mut page)?;
    overview::processes(report, &mut page)?;
    trouble::in_flight(report, &mut page)?;
    trouble::abandoned(report, &mut page)?;
    trouble::errors(report, &mut page)?;
    memory::by_device(report, &mut page)?;
    memory::allocations(report, &mut page)?;
    calls::counts(report, &mut page)?;
    calls::durations(report, &mut page)?;
    copies::waits(report, &mut page)?;
    copies::copies(report, &mut page)?;
    launches::by_function(report, &mut page)?;
    launches::kernels(report, &mut page)?;
    launches::graphs(report, &mut page)?;
    overview::untraced(report, &mut page)?;
    overview::gaps(report, &mut page)?;
    overview::holds(report, &mut page)?;
    overview::accounts(report, &mut page)
}
