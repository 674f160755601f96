//! What the program asked PyTorch's allocator for, by size.

use std::collections::BTreeMap;

use ledger::Pool;
use rustc_hash::FxHashMap;
use trace::Event;

/// Most sizes that are told apart.
const SIZES: usize = 4096;

/// Sizes of one process's requests on one device, as PyTorch rounded them.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    counts: FxHashMap<u64, u64>,
    /// Requests of sizes beyond the first 4,096.
    untold: u64,
}

impl Requests {
    fn count(&mut self, size: u64) {
        if self.counts.len() < SIZES || self.counts.contains_key(&size) {
            *self.counts.entry(size).or_default() += 1;
        } else {
            self.untold += 1;
        }
    }

    /// Requests of the pool that `size` belongs to, and those of them that are not larger; `None`
    /// where too many sizes came to know.
    pub(super) fn up_to(&self, size: u64) -> Option<(u64, u64)> {
        let pool = Pool::of_size(size);
        let of_pool = || {
            let counts = self.counts.iter();
            counts.filter(move |(size, _)| Pool::of_size(**size) == pool)
        };
        let all = of_pool().map(|(_, count)| count).sum();
        let fitting = of_pool().filter(|(other, _)| **other <= size);
        (self.untold == 0).then(|| (all, fitting.map(|(_, count)| count).sum()))
    }
}

/// [`Requests`] by process and device.
#[derive(Debug, Default)]
pub(crate) struct AllRequests(BTreeMap<(u32, i32), Requests>);

impl AllRequests {
    /// Takes in an event: PyTorch reports what it hands out with a positive size.
    pub(crate) fn event(&mut self, event: &Event) {
        let (Some(device), Some(_), Some(size)) = (event.device, event.reserved, event.size) else {
            return;
        };
        // Out of memory: reported without an address.
        if size > 0 && event.address.is_some() {
            let requests = self.0.entry((event.pid, device)).or_default();
            requests.count(size.unsigned_abs());
        }
    }

    /// The process is no more.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.0.retain(|(of, _), _| *of != pid);
    }

    pub(super) fn of(&self, pid: u32, device: i32) -> Option<&Requests> {
        self.0.get(&(pid, device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn only_requests_of_the_same_pool_can_fit() {
        let mut requests = Requests::default();
        for size in [512, 2 * MIB, 270 * MIB, 530 * MIB, 270 * MIB] {
            requests.count(size);
        }
        assert_eq!(requests.up_to(260 * MIB), Some((4, 1)));
        assert_eq!(requests.up_to(512 << 10), Some((1, 1)));
        for size in 0..=SIZES as u64 {
            requests.count(size * 512);
        }
        assert_eq!(requests.up_to(260 * MIB), None);
    }
}
