//! From hits to what they cost.

use std::collections::HashMap;

use agent_common::CLASSES;

/// Hits of a thread, by [`agent_common::ProbeClass`]; they wrap around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// At the entry of calls.
    pub entries: [u32; CLASSES],
    /// At their return.
    pub returns: [u32; CLASSES],
}

impl Hits {
    fn since(self, before: Self) -> Self {
        let less = |now: [u32; CLASSES], then: [u32; CLASSES]| {
            std::array::from_fn(|class| now[class].wrapping_sub(then[class]))
        };
        Self {
            entries: less(self.entries, before.entries),
            returns: less(self.returns, before.returns),
        }
    }
}

/// What a hit costs, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// At the entry of a call.
    pub entry: f64,
    /// At its return, with what that adds to the entry.
    pub at_return: f64,
}

impl Prices {
    /// What is assumed where it cannot be measured: more than on most machines.
    pub const ASSUMED: Self = Self {
        entry: 2000.0,
        at_return: 2000.0,
    };

    /// Cost of hits, ns, by class.
    pub fn cost(self, hits: Hits) -> [f64; CLASSES] {
        std::array::from_fn(|class| {
            f64::from(hits.entries[class]) * self.entry
                + f64::from(hits.returns[class]) * self.at_return
        })
    }
}

/// Takes differences.
#[derive(Clone, Debug)]
pub struct Meter {
    prices: Prices,
    threads: HashMap<u64, Hits>,
}

impl Meter {
    /// With the prices of this machine.
    pub fn new(prices: Prices) -> Self {
        Self {
            prices,
            threads: HashMap::new(),
        }
    }

    /// What a hit costs.
    pub const fn prices(&self) -> Prices {
        self.prices
    }

    /// What the busiest thread has spent since the last reading, by class. `threads` are all that
    /// there are now, each with the kernel's name of it.
    pub fn read(&mut self, threads: impl IntoIterator<Item = (u64, Hits)>) -> [f64; CLASSES] {
        let now: HashMap<u64, Hits> = threads.into_iter().collect();
        let spent = now.iter().map(|(thread, hits)| {
            let before = self.threads.get(thread).copied().unwrap_or_default();
            let spent = hits.since(before);
            // Counters that went back are those of another thread with this name.
            let is_other = spent.entries.iter().any(|hits| *hits > u32::MAX / 2);
            self.prices.cost(if is_other { *hits } else { spent })
        });
        let sum = |cost: &[f64; CLASSES]| cost.iter().sum::<f64>();
        let busiest = spent.max_by(|a, b| sum(a).total_cmp(&sum(b)));
        self.threads = now;
        busiest.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(hot: u32) -> Hits {
        Hits {
            entries: [1, 0, hot, 0, 0],
            returns: [1, 0, 0, 0, 0],
        }
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "small whole numbers")]
    fn the_busiest_thread_counts() {
        let mut meter = Meter::new(Prices {
            entry: 10.0,
            at_return: 5.0,
        });
        assert_eq!(
            meter.read([(1, hits(7)), (2, hits(3))]),
            [15.0, 0.0, 70.0, 0.0, 0.0]
        );
        assert_eq!(
            meter.read([(1, hits(8)), (2, hits(9))]),
            [0.0, 0.0, 60.0, 0.0, 0.0]
        );
        // Another thread of that name, and one that is gone.
        assert_eq!(meter.read([(1, hits(2))]), [15.0, 0.0, 20.0, 0.0, 0.0]);
        assert_eq!(meter.read([]), [0.0; CLASSES]);
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "small whole numbers")]
    fn counters_wrap_around() {
        let mut meter = Meter::new(Prices {
            entry: 1.0,
            at_return: 1.0,
        });
        let of = |hot| Hits {
            entries: [0, 0, hot, 0, 0],
            ..Hits::default()
        };
        meter.read([(1, of(u32::MAX - 1))]);
        assert_eq!(meter.read([(1, of(3))]), [0.0, 0.0, 5.0, 0.0, 0.0]);
    }
}
