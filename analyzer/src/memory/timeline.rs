//! The curves: how much was live when.

use std::collections::BTreeMap;

use ledger::{Ledger, ProcessKey};

use super::report::{Curve, Point, Torch};

/// Most points of a curve; beyond them, steps become twice as long.
const POINTS: usize = 512;

/// Most curves: those of the processes and devices that came first.
const CURVES: usize = 4096;

/// The first length of a step: 1 ms.
const STEP: u64 = 1_000_000;

/// Takes the state after each event.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    curves: BTreeMap<(ProcessKey, Option<i32>), Line>,
}

#[derive(Clone, Debug)]
struct Line {
    step: u64,
    points: Vec<Point>,
}

impl Timeline {
    /// What is live of process `pid` at `now`, ns after the recording's start at `start`.
    pub(super) fn note(&mut self, ledger: &Ledger, pid: u32, now: u64, start: u64) {
        let Some(process) = ledger.process(pid).filter(|known| known.knows_memory()) else {
            return;
        };
        for (&ordinal, device) in process.devices() {
            let allocator = ordinal.and_then(|ordinal| process.allocators().get(&ordinal));
            let live = device.live().bytes;
            self.add(
                (process.key(), ordinal),
                start,
                Point {
                    at_ns: now,
                    live_bytes: live,
                    most_live_bytes: live,
                    held_bytes: device.held_bytes(),
                    torch: allocator.map(Torch::of),
                },
            );
        }
    }

    /// The process is gone at `now`, and what it held.
    pub(super) fn end(&mut self, key: ProcessKey, now: u64, start: u64) {
        let curves = self.curves.keys().filter(|(of, _)| *of == key);
        let ended: Vec<_> = curves.copied().collect();
        for curve in ended {
            self.add(
                curve,
                start,
                Point {
                    at_ns: now,
                    live_bytes: 0,
                    most_live_bytes: 0,
                    held_bytes: 0,
                    torch: None,
                },
            );
        }
    }

    fn add(&mut self, curve: (ProcessKey, Option<i32>), start: u64, point: Point) {
        let has_room = self.curves.len() < CURVES;
        if has_room || self.curves.contains_key(&curve) {
            let line = self.curves.entry(curve).or_insert(Line {
                step: STEP,
                points: Vec::new(),
            });
            line.add(start, point);
        }
    }

    pub(super) fn finish(self) -> Vec<Curve> {
        self.curves
            .into_iter()
            .map(|((key, device), Line { step, points })| Curve {
                pid: key.pid,
                incarnation: key.incarnation,
                device,
                step_ns: step,
                points,
            })
            .collect()
    }
}

impl Line {
    fn add(&mut self, start: u64, point: Point) {
        self.push(start, point);
        while self.points.len() > POINTS {
            self.step = self.step.saturating_mul(2);
            for point in std::mem::take(&mut self.points) {
                self.push(start, point);
            }
        }
    }

    fn push(&mut self, start: u64, point: Point) {
        // Points end their steps: of one step, the last one stays, with the most of all.
        let steps = point.at_ns.saturating_sub(start).div_ceil(self.step);
        let at_ns = start.saturating_add(steps.saturating_mul(self.step));
        match self.points.last_mut() {
            Some(last) if at_ns <= last.at_ns => {
                *last = Point {
                    at_ns: last.at_ns,
                    most_live_bytes: last.most_live_bytes.max(point.most_live_bytes),
                    ..point
                };
            }
            Some(Point {
                live_bytes,
                most_live_bytes: _,
                held_bytes,
                torch,
                at_ns: _,
            }) if (*live_bytes, *held_bytes, *torch)
                == (point.live_bytes, point.held_bytes, point.torch)
                && point.most_live_bytes == point.live_bytes => {}
            Some(_) | None => self.points.push(Point { at_ns, ..point }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at_ns: u64, live_bytes: u64) -> Point {
        Point {
            at_ns,
            live_bytes,
            most_live_bytes: live_bytes,
            held_bytes: live_bytes,
            torch: None,
        }
    }

    #[test]
    fn a_step_keeps_its_last_value_and_its_highest() {
        let mut line = Line {
            step: 10,
            points: Vec::new(),
        };
        for (at, live) in [(101, 5), (105, 90), (109, 7), (115, 7), (131, 0)] {
            line.push(100, point(at, live));
        }
        let points: Vec<_> = line
            .points
            .iter()
            .map(|point| (point.at_ns, point.live_bytes, point.most_live_bytes))
            .collect();
        assert_eq!(points, [(110, 7, 90), (140, 0, 0)]);
    }

    #[test]
    fn a_long_curve_has_longer_steps_and_the_same_highest_value() {
        let mut line = Line {
            step: STEP,
            points: Vec::new(),
        };
        for n in 0..100_000 {
            line.add(0, point(n * STEP, n % 777));
        }
        assert!(line.points.len() <= POINTS);
        assert_eq!(line.step, STEP * 256);
        let most = line.points.iter().map(|point| point.most_live_bytes).max();
        assert_eq!(most, Some(776));
        assert!(line.points.is_sorted_by(|a, b| a.at_ns < b.at_ns));
    }
}
