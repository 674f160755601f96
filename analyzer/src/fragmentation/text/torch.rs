//! The state of PyTorch's caching allocator.

use std::io;

use crate::text::{Colour, bytes, counted, duration};

use super::super::picture;
use super::super::report::{FreeSize, Pinned, Segment, Torch};
use super::super::torch::PINNED_BELOW_PERCENT;
use super::ROWS_SHOWN;
use super::page::{Page, Tone, percent, times};

const BAR_WIDTH: usize = 32;
const SEGMENTS_SHOWN: usize = 16;
const PINNED_SHOWN: usize = 5;
const BLOCKS_SHOWN: usize = 3;

pub(super) fn totals(torch: &Torch, page: &mut Page) -> io::Result<()> {
    let segments = torch.segments.len();
    let row = |name: &str, value: u64, rest: String| {
        format!("{name:<13} {:>9}  {rest}", bytes(value))
            .trim_end()
            .to_owned()
    };
    page.paragraph(2, &row("allocated", torch.allocated, String::new()))?;
    page.paragraph(
        2,
        &row(
            "reserved",
            torch.reserved,
            format!("{segments} segments known"),
        ),
    )?;
    let most = torch.peak_unused.at_ns.map_or_else(String::new, |at| {
        format!(
            ", most {} at {}",
            bytes(torch.peak_unused.bytes),
            page.moment(at)
        )
    });
    let share = format!(
        "{} of reserved{most}",
        percent(torch.unused, torch.reserved)
    );
    page.paragraph(2, &row("unused", torch.unused, share))?;
    page.paragraph(
        2,
        &row("largest free", torch.largest_free, "free block".to_owned()),
    )?;
    page.paragraph(
        2,
        &row(
            "releasable",
            torch.releasable,
            "in wholly free segments".to_owned(),
        ),
    )?;
    if !torch.map.complete {
        let map = &torch.map;
        let parts = [
            (map.hidden_allocated, "allocated in no known block"),
            (map.hidden_reserved, "reserved in no known segment"),
            (map.stale_allocated, "of blocks freed unseen"),
            (map.stale_reserved, "of segments given back unseen"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(size, _)| *size > 0)
            .map(|(size, what)| format!("{} {what}", bytes(*size)))
            .collect();
        page.alarm(
            2,
            &format!("The map below is partial: {}", parts.join(", ")),
        )?;
    }
    if torch.map.discontinuities > 0 {
        page.alarm(
            2,
            &format!("Reports were lost {}", times(torch.map.discontinuities)),
        )?;
    }
    page.blank()?;
    page.line(
        2,
        "pool   segments   reserved  allocated       free  largest free",
        Tone::Heading,
    )?;
    for pool in &torch.pools {
        page.line(
            2,
            &format!(
                "{:<5} {:>9}  {:>9}  {:>9}  {:>9}  {:>12}",
                pool.pool,
                pool.segments,
                bytes(pool.reserved),
                bytes(pool.allocated),
                bytes(pool.free),
                bytes(pool.largest_free)
            ),
            Tone::Plain,
        )?;
    }
    Ok(())
}

pub(super) fn segments(torch: &Torch, page: &mut Page) -> io::Result<()> {
    let mut with_free: Vec<&Segment> = torch
        .segments
        .iter()
        .filter(|segment| segment.free > 0)
        .collect();
    if with_free.is_empty() {
        return Ok(());
    }
    with_free.sort_by_key(|segment| (std::cmp::Reverse(segment.free), segment.address));
    page.heading("Segments, the most free bytes first")?;
    page.paragraph(2, "# live, 1-9 tenths live, . free")?;
    for segment in with_free.iter().take(SEGMENTS_SHOWN) {
        let bar = coloured(&picture::bar(segment, BAR_WIDTH), page.colour);
        page.line(
            2,
            &format!(
                "{:<5} {:>9} [{bar}] {:>9} free {:>5} live",
                segment.pool,
                bytes(segment.size),
                bytes(segment.free),
                segment.blocks.len()
            ),
            Tone::Plain,
        )?;
    }
    page.more(with_free.len(), SEGMENTS_SHOWN, "segments with free bytes")
}

/// Live parts green, partly live ones yellow, free ones faint.
fn coloured(bar: &str, colour: Colour) -> String {
    match colour {
        Colour::Off => bar.to_owned(),
        Colour::On => bar
            .chars()
            .map(|part| match part {
                '#' => format!("\x1b[32m{part}\x1b[0m"),
                '.' => format!("\x1b[2m{part}\x1b[0m"),
                part => format!("\x1b[33m{part}\x1b[0m"),
            })
            .collect(),
    }
}

pub(super) fn pinned(torch: &Torch, page: &mut Page) -> io::Result<()> {
    let Pinned {
        segments,
        reserved,
        allocated,
        ..
    } = torch.pinned;
    if segments == 0 {
        return Ok(());
    }
    page.heading("Segments that few live bytes pin")?;
    page.paragraph(
        2,
        &format!(
            "{} of {} cannot be given back because of {} of live blocks (less than \
             {PINNED_BELOW_PERCENT}% of each):",
            counted(segments, "segment"),
            bytes(reserved),
            bytes(allocated)
        ),
    )?;
    let mut worst: Vec<&Segment> = torch
        .segments
        .iter()
        .filter(|segment| segment.pinned)
        .collect();
    worst.sort_by_key(|segment| (std::cmp::Reverse(segment.free), segment.address));
    for segment in worst.iter().take(PINNED_SHOWN) {
        let mut blocks: Vec<String> = segment
            .blocks
            .iter()
            .take(BLOCKS_SHOWN)
            .map(|block| {
                format!(
                    "{} ({} old)",
                    bytes(block.size),
                    duration(block.age_ns.unwrap_or(0))
                )
            })
            .collect();
        if let hidden @ 1.. = segment.blocks.len().saturating_sub(BLOCKS_SHOWN) {
            blocks.push(format!("{hidden} more"));
        }
        page.paragraph(
            2,
            &format!(
                "{} at {:#x}: {}",
                bytes(segment.size),
                segment.address,
                blocks.join(", ")
            ),
        )?;
    }
    page.more(worst.len(), PINNED_SHOWN, "pinned segments")
}

pub(super) fn free_sizes(sizes: &[FreeSize], page: &mut Page) -> io::Result<()> {
    if sizes.is_empty() {
        return Ok(());
    }
    page.heading("Free blocks by size")?;
    page.line(2, "     size      count      total", Tone::Heading)?;
    for free in sizes.iter().take(ROWS_SHOWN) {
        let row = format!(
            "{:>9} {:>10}  {:>9}",
            bytes(free.size),
            free.count,
            bytes(free.total)
        );
        page.line(2, &row, Tone::Plain)?;
    }
    page.more(sizes.len(), ROWS_SHOWN, "sizes")
}
