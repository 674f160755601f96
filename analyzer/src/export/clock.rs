//! From `CLOCK_MONOTONIC`, the clock of the rows, to the time of day.

use trace::fact::Clock;

/// Most anchors that are kept; of more, every second one goes.
const MOST: usize = 65_536;

/// The moments at which a recording read all clocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Anchors {
    /// By `monotonic`.
    anchors: Vec<Clock>,
    /// The lowest and the highest distance of the time of day from `CLOCK_MONOTONIC`, ns.
    distance: Option<(i128, i128)>,
}

impl Anchors {
    pub(super) fn add(&mut self, anchor: Clock) {
        let place = self
            .anchors
            .partition_point(|known| known.monotonic < anchor.monotonic);
        if self.anchors.get(place) == Some(&anchor) {
            return;
        }
        self.anchors.insert(place, anchor);
        let distance = i128::from(anchor.realtime) - i128::from(anchor.monotonic);
        let (lowest, highest) = self.distance.unwrap_or((distance, distance));
        self.distance = Some((lowest.min(distance), highest.max(distance)));
        if self.anchors.len() > MOST {
            let mut keep = false;
            self.anchors.retain(|_| {
                keep = !keep;
                keep
            });
        }
    }

    /// The anchor that is nearest to a moment of `CLOCK_MONOTONIC`.
    pub(super) fn nearest(&self, moment: u64) -> Option<&Clock> {
        let after = self
            .anchors
            .partition_point(|anchor| anchor.monotonic < moment);
        let next = self.anchors.get(after);
        let last = after.checked_sub(1).map(|before| &self.anchors[before]);
        let distance = |anchor: &&Clock| anchor.monotonic.abs_diff(moment);
        last.into_iter().chain(next).min_by_key(distance)
    }

    /// The time of day of a moment by the nearest anchor, ns since 1970.
    pub(super) fn realtime(&self, moment: u64) -> Option<u64> {
        let anchor = self.nearest(moment)?;
        let distance = i128::from(anchor.realtime) - i128::from(anchor.monotonic);
        u64::try_from(i128::from(moment) + distance).ok()
    }

    /// By how much the distance of the two clocks has changed, ns.
    pub(super) fn step(&self) -> u64 {
        self.distance.map_or(0, |(lowest, highest)| {
            u64::try_from(highest - lowest).unwrap_or(u64::MAX)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(monotonic: u64, realtime: u64) -> Clock {
        Clock {
            monotonic,
            boottime: monotonic,
            realtime,
        }
    }

    #[test]
    fn the_nearest_anchor_decides() {
        let mut anchors = Anchors::default();
        assert_eq!(anchors.realtime(5), None);
        anchors.add(anchor(2_000, 9_000));
        anchors.add(anchor(1_000, 5_000));
        let cases = [(0, 4_000), (1_499, 5_499), (1_600, 8_600), (3_000, 10_000)];
        for (moment, realtime) in cases {
            assert_eq!(anchors.realtime(moment), Some(realtime), "{moment}");
        }
        assert_eq!(anchors.step(), 3_000);
    }

    #[test]
    fn anchors_do_not_pile_up() {
        let mut anchors = Anchors::default();
        for moment in 0..200_000 {
            anchors.add(anchor(moment * 10, moment * 10 + 7));
        }
        assert!(anchors.anchors.len() <= MOST);
        assert_eq!(
            (anchors.realtime(1_234_567), anchors.step()),
            (Some(1_234_574), 0)
        );
    }
}
