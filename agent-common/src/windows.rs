//! Windows: when the entries of a class of probes are looked at.
//!
//! Attaching and detaching take their time; the edges of a window are sharp all the same, by one
//! word that the programs look at first.

/// What the overhead budget of `serve` switches together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ProbeClass {
    /// Rare calls, and those that the rest is understood by: devices, graphs, modules.
    Steady = 0,
    /// PyTorch's reports.
    Torch = 1,
    /// Launches, copies and waits.
    Hot = 2,
    /// Events put into streams, which tell how a capture spreads: wanted only while one is open.
    Capture = 3,
    /// Memory calls: rare, unless the program does without a caching allocator.
    Memory = 4,
}

/// How many classes there are.
pub const CLASSES: usize = 5;

impl ProbeClass {
    /// All, by number.
    pub const ALL: [Self; CLASSES] = [
        Self::Steady,
        Self::Torch,
        Self::Hot,
        Self::Capture,
        Self::Memory,
    ];
}

/// The word: a bit for each class whose entries are passed over, one for each that comes in windows,
/// and how often return probes of those had been taken off: what was pending then cannot be seen to
/// return. 0 where nothing is sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Windows(pub u32);

/// Where the bits of sampled classes begin.
const SAMPLED: u32 = 8;
/// Where the count begins.
const EPOCH: u32 = 16;

impl Windows {
    /// Whether entries of the class with this number are passed over.
    pub const fn is_closed(self, class: u8) -> bool {
        self.0 >> (class & 7) & 1 != 0
    }

    /// Whether the class with this number comes in windows.
    pub const fn is_sampled(self, class: u8) -> bool {
        self.0 >> (SAMPLED + (class & 7) as u32) & 1 != 0
    }

    /// How often return probes had been taken off.
    pub const fn epoch(self) -> u32 {
        self.0 >> EPOCH
    }

    /// The same with a class open, or closed.
    #[must_use]
    pub const fn with(self, class: ProbeClass, is_open: bool) -> Self {
        let bit = 1 << class as u32;
        Self(if is_open { self.0 & !bit } else { self.0 | bit })
    }

    /// The same with a class that comes in windows from now on, and is closed.
    #[must_use]
    pub const fn sampling(self, class: ProbeClass) -> Self {
        let closed = self.with(class, false);
        Self(closed.0 | 1 << (SAMPLED + class as u32))
    }

    /// The same after return probes were taken off.
    #[must_use]
    pub const fn next_epoch(self) -> Self {
        Self(self.0.wrapping_add(1 << EPOCH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_epochs_do_not_mix() {
        let closed = Windows::default()
            .with(ProbeClass::Hot, false)
            .with(ProbeClass::Torch, false);
        assert!(closed.is_closed(2) && closed.is_closed(1) && !closed.is_closed(0));
        let next = closed.with(ProbeClass::Hot, true).next_epoch();
        assert!(!next.is_closed(2) && next.is_closed(1));
        assert_eq!((closed.epoch(), next.epoch()), (0, 1));
        let last = Windows(u32::MAX).next_epoch();
        assert!(last.is_closed(2) && last.epoch() == 0);
    }

    #[test]
    fn what_is_sampled_stays_so_while_a_window_is_open() {
        let sampled = Windows::default().sampling(ProbeClass::Memory);
        assert!(sampled.is_closed(4) && sampled.is_sampled(4) && !sampled.is_sampled(2));
        let open = sampled.with(ProbeClass::Memory, true).next_epoch();
        assert!(!open.is_closed(4) && open.is_sampled(4));
    }
}
