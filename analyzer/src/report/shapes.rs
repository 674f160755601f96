//! Shapes of launches: grids and blocks.

use agent_common::launch::Dimensions;

use super::LaunchShape;
use crate::histogram::{Histogram, Precision};

/// Launches and their shapes.
#[derive(Debug)]
pub(super) struct Shapes {
    launches: u64,
    /// Of them, those that went into a graph.
    captured: u64,
    /// The last shape, and how many launches in a row had it: a kernel's launches tend to have
    /// one. They are counted when another comes.
    run: Option<(Dimensions, u64)>,
    grid_blocks: Histogram,
    block_threads: Histogram,
    launch_threads: Histogram,
}

impl Shapes {
    pub(super) fn new() -> Self {
        Self {
            launches: 0,
            captured: 0,
            run: None,
            grid_blocks: Histogram::new(Precision::Coarse),
            block_threads: Histogram::new(Precision::Coarse),
            launch_threads: Histogram::new(Precision::Coarse),
        }
    }

    /// A launch; its shape, where it could be read, and whether it went into a graph.
    #[inline]
    pub(super) fn launch(&mut self, shape: Option<Dimensions>, captured: bool) {
        self.launches += 1;
        self.captured += u64::from(captured);
        let Some(shape) = shape else { return };
        match &mut self.run {
            Some((last, times)) if *last == shape => *times += 1,
            run => {
                if let Some((last, times)) = run.replace((shape, 1)) {
                    self.count(last, times);
                }
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        let Self {
            launches,
            captured,
            run,
            grid_blocks,
            block_threads,
            launch_threads,
        } = other;
        self.launches += launches;
        self.captured += captured;
        self.grid_blocks.merge(grid_blocks);
        self.block_threads.merge(block_threads);
        self.launch_threads.merge(launch_threads);
        if let Some((shape, times)) = *run {
            self.count(shape, times);
        }
    }

    /// How many launches there were, how many of them went into graphs, and their shapes.
    pub(super) fn finish(mut self) -> (u64, u64, LaunchShape) {
        if let Some((shape, times)) = self.run.take() {
            self.count(shape, times);
        }
        let shape = LaunchShape {
            grid_blocks: self.grid_blocks.distribution(),
            block_threads: self.block_threads.distribution(),
            launch_threads: self.launch_threads.distribution(),
        };
        (self.launches, self.captured, shape)
    }

    fn count(&mut self, Dimensions { grid, block }: Dimensions, times: u64) {
        let (blocks, threads) = (volume(grid), volume(block));
        self.grid_blocks.record_n(blocks, times);
        self.block_threads.record_n(threads, times);
        self.launch_threads
            .record_n(blocks.saturating_mul(threads), times);
    }
}

fn volume([x, y, z]: [u32; 3]) -> u64 {
    (u64::from(x) * u64::from(y)).saturating_mul(u64::from(z))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_shape_are_counted_like_single_launches() {
        let small = Dimensions {
            grid: [2, 1, 1],
            block: [32, 1, 1],
        };
        let large = Dimensions {
            grid: [4, 2, 2],
            block: [32, 4, 1],
        };
        let mut shapes = Shapes::new();
        for shape in [Some(small), Some(small), None, Some(large), Some(small)] {
            shapes.launch(shape, shape.is_none());
        }
        let mut all = Shapes::new();
        all.launch(Some(large), false);
        all.merge(&shapes);
        let (launches, captured, shape) = all.finish();
        let threads = shape.launch_threads.expect("shapes");
        assert_eq!((launches, captured, threads.count), (6, 1, 5));
        assert_eq!(
            (threads.total, threads.percentiles.max),
            (3 * 64 + 2 * 2048, 2048)
        );
        assert_eq!(shape.grid_blocks.expect("shapes").total, 3 * 2 + 2 * 16);
        assert_eq!(shape.block_threads.expect("shapes").total, 3 * 32 + 2 * 128);
    }

    #[test]
    fn impossible_shapes_do_not_overflow() {
        let mut shapes = Shapes::new();
        let shape = Dimensions {
            grid: [u32::MAX; 3],
            block: [u32::MAX; 3],
        };
        shapes.launch(Some(shape), false);
        let (_, _, shape) = shapes.finish();
        assert_eq!(shape.launch_threads.expect("shapes").over, 1);
    }
}
