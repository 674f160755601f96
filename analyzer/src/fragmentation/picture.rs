//! A segment as a bar.

use super::report::Segment;

/// One character for each of `width` equal parts of the segment: `#` live, `1` to `9` so many
/// tenths live (rounded, but never to all or nothing), `.` free.
pub(super) fn bar(segment: &Segment, width: usize) -> String {
    let parts = width as u64;
    let mut live = vec![0_u64; width];
    // Part `n` spans the bytes from `n * size / parts` on.
    let edge = |n: u64| {
        let edge = u128::from(segment.size) * u128::from(n) / u128::from(parts);
        u64::try_from(edge).unwrap_or(segment.size)
    };
    let part_of = |offset: u64| {
        let part = u128::from(offset) * u128::from(parts) / u128::from(segment.size.max(1));
        u64::try_from(part).unwrap_or(parts).min(parts)
    };
    for block in &segment.blocks {
        let start = block.address.saturating_sub(segment.address);
        let end = start.saturating_add(block.size).min(segment.size);
        // `part_of` rounds down, and so may `edge`: the part before can reach in.
        for n in part_of(start).saturating_sub(1)..parts.min(part_of(end) + 1) {
            let overlap = end.min(edge(n + 1)).saturating_sub(start.max(edge(n)));
            if let Some(live) = usize::try_from(n).ok().and_then(|n| live.get_mut(n)) {
                *live += overlap;
            }
        }
    }
    live.iter()
        .zip(0..parts)
        .map(|(&live, n)| cell(live, edge(n + 1) - edge(n)))
        .collect()
}

fn cell(live: u64, size: u64) -> char {
    if live == 0 {
        return '.';
    }
    if live >= size {
        return '#';
    }
    let tenths = (u128::from(live) * 10 + u128::from(size) / 2) / u128::from(size);
    u32::try_from(tenths.clamp(1, 9))
        .ok()
        .and_then(|tenths| char::from_digit(tenths, 10))
        .unwrap_or('#')
}

#[cfg(test)]
mod tests {
    use super::super::report::Block;
    use super::*;

    fn segment(size: u64, blocks: &[(u64, u64)]) -> Segment {
        Segment {
            address: 0x1000,
            size,
            pool: "large",
            expandable: false,
            allocated: 0,
            free: 0,
            largest_free: 0,
            age_ns: 0,
            pinned: false,
            blocks: blocks
                .iter()
                .map(|&(offset, size)| Block {
                    address: 0x1000 + offset,
                    size,
                    age_ns: None,
                })
                .collect(),
        }
    }

    #[test]
    fn parts_show_how_much_of_them_is_live() {
        let cases: [(&[(u64, u64)], &str); 7] = [
            (&[], ".........."),
            (&[(0, 1000)], "##########"),
            (&[(0, 100), (300, 100)], "#..#......"),
            (&[(50, 100)], "55........"),
            (&[(0, 1)], "1........."),
            (&[(0, 99)], "9........."),
            (&[(0, 20), (40, 20), (990, 10)], "4........1"),
        ];
        for (blocks, picture) in cases {
            assert_eq!(bar(&segment(1000, blocks), 10), picture, "{blocks:?}");
        }
    }

    /// Widths that do not divide the size, sizes below the width, and the largest there is.
    #[test]
    fn every_size_has_a_bar() {
        assert_eq!(bar(&segment(7, &[(0, 7)]), 32).len(), 32);
        assert_eq!(
            bar(&segment(u64::MAX - 0x1000, &[(0, u64::MAX - 0x1000)]), 3),
            "###"
        );
        assert_eq!(bar(&segment(1000, &[(0, 500)]), 3), "#5.");
        assert_eq!(bar(&segment(0, &[]), 3), "...");
    }
}
