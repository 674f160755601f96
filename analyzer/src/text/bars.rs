//! Histograms as bars.

use std::collections::BTreeMap;
use std::io;

use super::page::Page;
use super::table::{Align, Cell, Table};
use super::units;
use crate::histogram::{Bucket, Distribution};

/// Characters in the longest bar.
const LENGTH: u64 = 40;

/// Writes the buckets of all distributions together, one bar each; `bound` formats a bucket's
/// bounds.
pub(crate) fn write<'a>(
    distributions: impl IntoIterator<Item = &'a Distribution>,
    bound: fn(u64) -> String,
    page: &mut Page<'_>,
) -> io::Result<()> {
    let mut buckets: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut over: u64 = 0;
    for distribution in distributions {
        over = over.saturating_add(distribution.over);
        for Bucket { from, below, count } in &distribution.buckets {
            let total = buckets.entry((*from, *below)).or_default();
            *total = total.saturating_add(*count);
        }
    }
    let longest = buckets.values().copied().chain([over]).max().unwrap_or(0);
    let mut table = Table::new([
        ("from", Align::Right),
        ("below", Align::Right),
        ("count", Align::Right),
        ("", Align::Left),
    ]);
    let mut row = |from, below, count| {
        table.row([
            from,
            below,
            Cell::from(units::count(count)),
            Cell::bar(bar(count, longest)),
        ]);
    };
    for ((from, below), count) in buckets {
        row(Cell::from(bound(from)), Cell::from(bound(below)), count);
    }
    if over > 0 {
        row(Cell::from(bound(1 << 63)), Cell::unknown(), over);
    }
    table.write(page)
}

/// A bar in eighths of a character; whatever is not 0 has one.
fn bar(count: u64, longest: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = u128::from(count) * u128::from(LENGTH * 8) / u128::from(longest.max(1));
    let eighths = usize::try_from(eighths)
        .unwrap_or(0)
        .max(usize::from(count > 0));
    let mut text = "█".repeat(eighths / 8);
    text.push_str(EIGHTHS[eighths % 8]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion_and_never_vanish() {
        assert_eq!(bar(10, 10), "█".repeat(40));
        assert_eq!(bar(1, 80), "▌");
        assert_eq!(bar(1, u64::MAX), "▏");
        assert_eq!(bar(u64::MAX, u64::MAX), "█".repeat(40));
        assert_eq!(bar(0, 0), "");
    }
}
