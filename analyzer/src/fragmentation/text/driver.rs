//! Memory from the driver.

use std::io;

use crate::text::{bytes, file_name};

use super::super::report::Driver;
use super::ROWS_SHOWN;
use super::page::{Page, Tone, harmless, percent};

/// Most characters of a file's name.
const CALLER: usize = 34;

pub(super) fn blocks(driver: &Driver, page: &mut Page) -> io::Result<()> {
    let pools = if driver.pool_live_bytes > 0 {
        format!(
            " (memory pools, {} live, in pieces of {})",
            bytes(driver.pool_live_bytes),
            bytes(driver.pool_page_bytes)
        )
    } else {
        String::new()
    };
    page.paragraph(
        2,
        &format!(
            "{} blocks, {} live; they hold {} in pages of {}{pools}: {} waste ({})",
            driver.blocks,
            bytes(driver.live_bytes),
            bytes(driver.held_bytes),
            bytes(driver.page_bytes),
            bytes(driver.waste_bytes),
            percent(driver.waste_bytes, driver.held_bytes)
        ),
    )?;
    if driver.waste_bytes == 0 {
        return Ok(());
    }
    page.line(
        2,
        " size up to    blocks       live      waste  caller",
        Tone::Heading,
    )?;
    for held in driver
        .held_by
        .iter()
        .filter(|held| held.waste_bytes > 0)
        .take(ROWS_SHOWN)
    {
        let caller = held.caller.as_deref().map_or("unknown".to_owned(), |path| {
            harmless(&file_name(path, CALLER))
        });
        let row = format!(
            "{:>11} {:>9}  {:>9}  {:>9}  {caller}",
            bytes(held.size_class_bytes),
            held.blocks,
            bytes(held.live_bytes),
            bytes(held.waste_bytes)
        );
        page.line(2, &row, Tone::Plain)?;
    }
    let wasting = driver
        .held_by
        .iter()
        .filter(|held| held.waste_bytes > 0)
        .count();
    page.more(wasting, ROWS_SHOWN, "groups")
}
