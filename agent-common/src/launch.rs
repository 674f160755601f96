//! Packing of launch dimensions into the words of [`crate::CallRecord::args`].

/// Grid and block dimensions in threads and blocks, `[x, y, z]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Dimensions {
    /// Blocks in the grid.
    pub grid: [u32; 3],
    /// Threads in a block.
    pub block: [u32; 3],
}

/// The three words that hold `dimensions`.
pub const fn pack(dimensions: Dimensions) -> [u64; 3] {
    let Dimensions {
        grid: [gx, gy, gz],
        block: [bx, by, bz],
    } = dimensions;
    [pair(gx, gy), pair(gz, bx), pair(by, bz)]
}

/// The dimensions that [`pack`] packed.
pub const fn unpack(words: [u64; 3]) -> Dimensions {
    let [a, b, c] = words;
    Dimensions {
        grid: [low(a), high(a), low(b)],
        block: [high(b), low(c), high(c)],
    }
}

/// `low` in the lower half, `high` in the upper.
pub const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

const fn low(word: u64) -> u32 {
    (word & 0xffff_ffff) as u32
}

const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_survive_packing() {
        let dimensions = Dimensions {
            grid: [2, 3, 5],
            block: [7, 11, u32::MAX],
        };
        assert_eq!(unpack(pack(dimensions)), dimensions);
    }
}
