//! What one pool holds of its device: pieces of 32 MiB, aligned to their size, which its blocks
//! share. Measured on an H200 with driver 580, for default pools and a program's own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::device_memory::{DeviceMemory, insert_merged};

/// The unit in which a pool takes memory from its device, bytes.
pub(crate) const PIECE: u64 = 32 << 20;
/// Distance of blocks.
const UNIT: u64 = 512;

#[derive(Debug, Default)]
pub(crate) struct PoolMemory {
    /// Where the pieces are.
    pieces: BTreeSet<u64>,
    /// Unused ranges in them: start to length, never touching one another.
    gaps: BTreeMap<u64, u64>,
    /// Blocks in use: address to the bytes asked for.
    blocks: HashMap<u64, u64>,
}

impl PoolMemory {
    /// Takes `size` bytes (above 0) where there is room, else in new pieces; `None` where the
    /// device has not enough.
    pub(crate) fn take(&mut self, size: u64, device: &mut DeviceMemory) -> Option<u64> {
        let bytes = size.checked_next_multiple_of(UNIT)?;
        let fits = |(_, length): &(&u64, &u64)| **length >= bytes;
        if !self.gaps.iter().any(|gap| fits(&gap)) {
            let length = bytes.checked_next_multiple_of(PIECE)?;
            let start = device.take_aligned(length, PIECE)?;
            let pieces = (0..length / PIECE).map(|piece| start + piece * PIECE);
            self.pieces.extend(pieces);
            insert_merged(&mut self.gaps, start, length);
        }
        let (&start, &length) = self.gaps.iter().find(fits)?;
        self.gaps.remove(&start);
        if length > bytes {
            self.gaps.insert(start + bytes, length - bytes);
        }
        self.blocks.insert(start, size);
        Some(start)
    }

    /// Takes the block at `address` back; `false` where there is none.
    pub(crate) fn give_back(&mut self, address: u64) -> bool {
        let Some(size) = self.blocks.remove(&address) else {
            return false;
        };
        insert_merged(&mut self.gaps, address, size.next_multiple_of(UNIT));
        true
    }

    /// Gives unused pieces to the device until at most `keep` bytes are held.
    pub(crate) fn trim(&mut self, keep: u64, device: &mut DeviceMemory) {
        let mut held = self.held_bytes();
        for piece in self.pieces.clone() {
            if held <= keep {
                return;
            }
            let gap = self.gaps.range(..=piece).next_back();
            let Some((start, end)) = gap.map(|(start, length)| (*start, start + length)) else {
                continue;
            };
            if end < piece + PIECE {
                continue;
            }
            self.gaps.remove(&start);
            if start < piece {
                self.gaps.insert(start, piece - start);
            }
            if end > piece + PIECE {
                self.gaps.insert(piece + PIECE, end - piece - PIECE);
            }
            self.pieces.remove(&piece);
            device.give_aligned_back(piece, PIECE);
            held -= PIECE;
        }
    }

    /// Takes over what another pool of the device holds.
    pub(crate) fn absorb(&mut self, other: Self) {
        let Self {
            pieces,
            gaps,
            blocks,
        } = other;
        self.pieces.extend(pieces);
        self.blocks.extend(blocks);
        for (start, length) in gaps {
            insert_merged(&mut self.gaps, start, length);
        }
    }

    /// Bytes of the block in use at `address`.
    pub(crate) fn size_of(&self, address: u64) -> Option<u64> {
        self.blocks.get(&address).copied()
    }

    /// Bytes held from the device.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.pieces.len() as u64 * PIECE
    }

    /// Bytes of the blocks in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.blocks.values().sum()
    }

    /// How many pieces there are.
    pub(crate) fn pieces(&self) -> usize {
        self.pieces.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn device() -> DeviceMemory {
        // Not on a piece.
        let base = 0x7f00_0020_0000;
        DeviceMemory::new(GIB, base..base + 4 * GIB)
    }

    /// As measured: what the pool holds after each step.
    #[test]
    fn pieces_are_taken_as_blocks_need_them_and_given_back_unused() {
        let (mut device, mut pool) = (device(), PoolMemory::default());
        let large = pool.take(257 * MIB, &mut device).expect("fits");
        assert_eq!((large % PIECE, pool.held_bytes()), (0, 288 * MIB));
        let small = pool.take(4096, &mut device).expect("fits");
        assert_eq!(pool.held_bytes(), 288 * MIB);
        assert!(pool.give_back(large) && !pool.give_back(large));
        assert_eq!(pool.held_bytes(), 288 * MIB);
        pool.trim(0, &mut device);
        assert_eq!(pool.held_bytes(), 32 * MIB);
        assert_eq!(device.capacity() - device.free(), 32 * MIB);
        assert!(pool.give_back(small));
        pool.trim(32 * MIB, &mut device);
        assert_eq!(pool.held_bytes(), 32 * MIB);
        pool.trim(0, &mut device);
        assert_eq!((pool.pieces(), device.free()), (0, GIB));
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let (mut device, mut pool) = (device(), PoolMemory::default());
        assert_eq!(pool.take(GIB + 1, &mut device), None);
        assert_eq!(pool.take(u64::MAX, &mut device), None);
        assert_eq!((pool.pieces(), device.free()), (0, GIB));
    }
}
