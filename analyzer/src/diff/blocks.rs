//! Values of one quantity in the order in which they came, as the means of blocks of them.

/// Most blocks; then two neighbours become one.
const BLOCKS: usize = 64;

/// Means of the logarithms of values, in blocks of equal length.
///
/// Calls that follow each other are alike, so that thousands of them tell less than their number
/// promises. Means of long blocks are nearly independent ("batch means"), and a test on them does
/// not take a slow minute for a slow program. The logarithm makes a shift a ratio, and keeps one
/// call that took a second from outweighing a million others.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    /// Values in a whole block.
    length: u64,
    /// Sums of whole blocks.
    sums: Vec<f64>,
    /// The block that is not whole.
    sum: f64,
    values: u64,
}

impl Blocks {
    pub(super) fn new() -> Self {
        Self {
            length: 1,
            sums: Vec::new(),
            sum: 0.0,
            values: 0,
        }
    }

    /// The next value; 0 counts as 1.
    #[expect(clippy::cast_precision_loss, reason = "a logarithm needs no 53 bits")]
    pub(super) fn push(&mut self, value: u64) {
        self.sum += (value.max(1) as f64).ln();
        self.values += 1;
        if self.values < self.length {
            return;
        }
        self.sums.push(std::mem::take(&mut self.sum));
        self.values = 0;
        if self.sums.len() == BLOCKS {
            self.sums = self.sums.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.length *= 2;
        }
    }

    /// The means of the whole blocks.
    #[expect(clippy::cast_precision_loss, reason = "no recording has 2^53 values")]
    pub(super) fn means(&self) -> Vec<f64> {
        let length = self.length as f64;
        self.sums.iter().map(|sum| sum / length).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_values_but_the_last_few_are_in_a_block() {
        for count in [1_u32, 7, 63, 64, 65, 1000, 12_345] {
            let mut blocks = Blocks::new();
            for value in 1..=count {
                blocks.push(value.into());
            }
            let means = blocks.means();
            let length = u32::try_from(blocks.length).expect("few values");
            let whole = u32::try_from(means.len()).expect("few blocks");
            assert!(whole * length <= count && count < (whole + 1) * length);
            assert!(means.len() < BLOCKS && whole >= count.min(32));
            let first: f64 = (1..=length).map(|value| f64::from(value).ln()).sum();
            assert!((means[0] - first / f64::from(length)).abs() < 1e-9);
        }
    }
}
