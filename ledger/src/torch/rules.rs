//! The rules by which PyTorch's caching allocator chooses sizes, at its default settings.
//!
//! Source: c10/cuda/CUDACachingAllocator.cpp (`round_size`, `get_allocation_size`,
//! `should_split`, `get_pool`), <https://github.com/pytorch/pytorch/blob/eb42ad6eca0ce61e7c581212b4bf32f991425571/c10/cuda/CUDACachingAllocator.cpp>.
//! `PYTORCH_ALLOC_CONF` can change some: `roundup_power2_divisions` the rounding,
//! `max_split_size_mb` what is split, `large_segment_size_mb` the 20 MiB.

use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;

/// Block sizes are multiples of this many bytes.
pub const BLOCK_QUANTUM: u64 = 512;
/// The largest size that the small pool serves, bytes.
pub const SMALL_LIMIT: u64 = MIB;
/// What the small pool takes from the device at a time, bytes.
pub const SMALL_SEGMENT: u64 = 2 * MIB;
/// What the large pool takes from the device for a size below [`LARGE_OWN`], bytes.
pub const LARGE_SEGMENT: u64 = 20 * MIB;
/// From this size on, a block gets a segment of its own size.
pub const LARGE_OWN: u64 = 10 * MIB;
/// Segments of the large pool are multiples of this many bytes.
pub const SEGMENT_QUANTUM: u64 = 2 * MIB;

/// The allocator keeps blocks of up to 1 MiB and larger ones apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// Sizes up to [`SMALL_LIMIT`].
    Small,
    /// Sizes above.
    Large,
}

impl Pool {
    /// Both pools.
    pub const ALL: [Self; 2] = [Self::Small, Self::Large];

    /// The pool that serves a rounded size.
    pub const fn of_size(size: u64) -> Self {
        if size <= SMALL_LIMIT {
            Self::Small
        } else {
            Self::Large
        }
    }

    /// The name in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
        }
    }

    /// What an expandable segment of the pool grows by, bytes.
    pub const fn granule(self) -> u64 {
        match self {
            Self::Small => SMALL_SEGMENT,
            Self::Large => LARGE_SEGMENT,
        }
    }

    /// Whether a free block that exceeds the wanted size by `remainder` bytes is split; if not,
    /// it is handed out whole.
    pub const fn splits(self, remainder: u64) -> bool {
        match self {
            Self::Small => remainder >= BLOCK_QUANTUM,
            Self::Large => remainder > SMALL_LIMIT,
        }
    }
}

/// The size of the block that a request of `size` bytes gets; `None` past the address space.
pub const fn round_size(size: u64) -> Option<u64> {
    if size < BLOCK_QUANTUM {
        Some(BLOCK_QUANTUM)
    } else {
        size.checked_next_multiple_of(BLOCK_QUANTUM)
    }
}

/// The size of the segment that is taken from the device when no free block serves a rounded
/// size; `None` past the address space.
pub const fn segment_size(rounded: u64) -> Option<u64> {
    match Pool::of_size(rounded) {
        Pool::Small => Some(SMALL_SEGMENT),
        Pool::Large if rounded < LARGE_OWN => Some(LARGE_SEGMENT),
        Pool::Large => rounded.checked_next_multiple_of(SEGMENT_QUANTUM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes at the edges, worked out by hand from the source named above.
    #[test]
    fn sizes_at_the_edges() {
        for (size, rounded, segment) in [
            (1, 512, 2 * MIB),
            (512, 512, 2 * MIB),
            (513, 1024, 2 * MIB),
            (MIB, MIB, 2 * MIB),
            (MIB + 1, MIB + 512, 20 * MIB),
            (10 * MIB - 1, 10 * MIB, 10 * MIB),
            (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
            (10 * MIB + 1, 10 * MIB + 512, 12 * MIB),
        ] {
            assert_eq!(round_size(size), Some(rounded), "round_size({size})");
            assert_eq!(
                segment_size(rounded),
                Some(segment),
                "segment_size({rounded})"
            );
        }
        assert_eq!(round_size(u64::MAX), None);
    }

    #[test]
    fn what_is_split() {
        assert!(!Pool::Small.splits(0));
        assert!(Pool::Small.splits(512));
        assert!(!Pool::Large.splits(MIB));
        assert!(Pool::Large.splits(MIB + 512));
    }
}
