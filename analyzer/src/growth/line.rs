//! A line of memory: whose, of what kind and size, and how it went.

use std::hash::{Hash, Hasher};

use ledger::{MemoryKind, ProcessKey};

use super::Source;
use super::series::{BINS, Series};

/// Steps of a doubling into which sizes are classed: fine enough that what leaks stands apart
/// from what comes and goes, coarse enough that classes are few.
const STEPS: u64 = 4;

/// What a line is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) whose: Whose,
    /// [`class_of`] its blocks; `None`: all sizes together.
    pub(super) class: Option<u16>,
}

/// Whose memory, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Whose {
    pub(super) process: ProcessKey,
    pub(super) device: Option<i32>,
    pub(super) memory: Memory,
}

/// In two words, as each allocation and each free looks for it.
impl Hash for Whose {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            process: ProcessKey { pid, incarnation },
            device,
            memory,
        } = *self;
        let (kind, caller, is_segment) = match memory {
            Memory::Torch => (0, None, false),
            Memory::Reserved => (1, None, false),
            Memory::Calls {
                kind,
                caller,
                is_segment,
            } => (2 + kind as u8, caller, is_segment),
        };
        let words = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let what = u32::from(kind) << 1 | u32::from(is_segment);
        state.write_u64(words(caller.unwrap_or(u32::MAX), what));
        let place = device.unwrap_or(-1).cast_unsigned() ^ incarnation << 16;
        state.write_u64(words(pid, place));
    }
}

/// What memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Memory {
    /// PyTorch's blocks.
    Torch,
    /// What PyTorch holds of the device.
    Reserved,
    /// Taken by calls to CUDA from this call site.
    Calls {
        kind: MemoryKind,
        caller: Option<u32>,
        is_segment: bool,
    },
}

impl Memory {
    /// `None` for memory that is not taken here: registered, or another process's.
    pub(super) const fn source(self) -> Option<Source> {
        match self {
            Self::Torch => Some(Source::Torch),
            Self::Reserved => Some(Source::TorchReserved),
            Self::Calls { kind, .. } => match kind {
                MemoryKind::Device => Some(Source::Device),
                MemoryKind::Pool => Some(Source::Pool),
                MemoryKind::Vmm => Some(Source::Vmm),
                MemoryKind::Managed => Some(Source::Managed),
                MemoryKind::PinnedHost => Some(Source::PinnedHost),
                MemoryKind::Graph => Some(Source::Graph),
                MemoryKind::RegisteredHost | MemoryKind::Ipc => None,
            },
        }
    }
}

/// The class of a size.
#[expect(clippy::cast_possible_truncation, reason = "64 octaves of 4 steps")]
pub(super) fn class_of(size: u64) -> u16 {
    let above = size.saturating_sub(1);
    if above < STEPS {
        return above as u16;
    }
    let octave = u64::from(above.ilog2());
    let step = (above >> (octave - 2)) & (STEPS - 1);
    (octave * STEPS + step) as u16
}

/// Sizes of a class: above the first, up to the second.
pub(super) fn sizes_of(class: u16) -> (u64, u64) {
    let class = u64::from(class);
    if class < STEPS {
        return (class, class + 1);
    }
    let (octave, step) = (class / STEPS, class % STEPS);
    let bound = |steps: u64| (u128::from(STEPS + steps) << octave) / u128::from(STEPS);
    let clamped = |bound: u128| u64::try_from(bound).unwrap_or(u64::MAX);
    (clamped(bound(step)), clamped(bound(step + 1)))
}

/// How it went, and what is left at the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) series: Series,
    /// Live bytes at the end, by the bin that they came in.
    pub(super) survivors: Vec<u64>,
    pub(super) survivor_count: u64,
}

impl Line {
    pub(super) fn survives(&mut self, bin: usize, bytes: u64) {
        if self.survivors.is_empty() {
            self.survivors = vec![0; BINS];
        }
        self.survivors[bin] = self.survivors[bin].saturating_add(bytes);
        self.survivor_count += 1;
    }

    pub(super) fn fold(&mut self) {
        self.series.fold();
        if !self.survivors.is_empty() {
            let mut folded: Vec<u64> = self
                .survivors
                .chunks(2)
                .map(|pair| pair.iter().copied().fold(0, u64::saturating_add))
                .collect();
            folded.resize(BINS, 0);
            self.survivors = folded;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_their_sizes() {
        let sizes = (0..60).flat_map(|shift| {
            let size = 1_u64 << shift;
            [size - 1, size, size + 1, size + size / 3, size + size / 2]
        });
        for size in sizes.filter(|size| *size > 0).chain([u64::MAX]) {
            let (above, to) = sizes_of(class_of(size));
            assert!(above < size && size <= to, "{size}: {above}..{to}");
            assert!(
                size < 8 || to - above <= above.div_ceil(4),
                "{size}: {above}..{to}"
            );
        }
    }

    #[test]
    fn a_power_of_two_ends_its_class() {
        assert_eq!(sizes_of(class_of(2 << 20)), (7 << 18, 2 << 20));
    }
}
