//! What healthy programs do to memory; a [`Leak`] may go along with any of it.

use crate::sample::SECOND;
use crate::world::{Leak, MIB, MINUTE, World};

/// A program that runs for a time.
pub(crate) type Workload = fn(&mut World, u64);

pub(crate) const ALL: [Workload; 5] = [serving, training, warming, batches, bursts];

/// Weights, a KV cache, graphs; then requests under a load that rises and falls.
pub(crate) fn serving(world: &mut World, end: u64) {
    load(world);
    let cache = world.random.between(8192, 20_000) * MIB;
    world.take(cache);
    let period = world.random.between(15, 60) * MINUTE;
    while world.now() < end {
        let phase = (world.now() % period) as f64 / period as f64 * std::f64::consts::TAU;
        let pause = (400_000_000.0 * (1.6 + phase.sin())) as u64;
        world.rest(pause);
        for _ in 0..world.random.between(1, 4) {
            let size = world.random.between(512, 8 * MIB);
            let time = world.random.wait(4 * SECOND);
            world.hold(size, time);
        }
        // Now and then one large request, whose cache stays.
        if world.random.unit() < 0.0002 {
            let cache = world.random.between(64 * MIB, 512 * MIB);
            world.take(cache);
        }
    }
}

/// Steps: activations come and go, the optimizer's state comes with the first one, evaluation
/// holds more.
pub(crate) fn training(world: &mut World, end: u64) {
    load(world);
    let step = world.random.between(SECOND, 4 * SECOND);
    let activations: Vec<u64> = (0..6)
        .map(|_| world.random.between(MIB, 200 * MIB))
        .collect();
    for _ in 0..40 {
        let state = world.random.between(4 * MIB, 40 * MIB);
        world.take(state);
    }
    let evaluation = world.random.between(4, 9) * MINUTE;
    let mut next_evaluation = evaluation;
    while world.now() < end {
        for size in &activations {
            world.hold(*size, step * 9 / 10);
        }
        if world.now() > next_evaluation {
            next_evaluation += evaluation;
            for _ in 0..20 {
                world.hold(10 * MIB, 40 * SECOND);
            }
        }
        world.until(world.now() + step);
    }
}

/// Caches that fill: new shapes come rarer and rarer, each with a workspace that stays.
pub(crate) fn warming(world: &mut World, end: u64) {
    load(world);
    let start = world.now();
    let settling = world.random.between(60, 240) * SECOND;
    let workspace = world.random.between(MIB, 24 * MIB);
    let shapes = world.random.between(8, 40);
    let mut left = shapes as f64;
    while world.now() < end {
        world.rest(SECOND);
        let size = world.random.between(MIB, 64 * MIB);
        world.hold(size, 2 * SECOND);
        let age = (world.now() - start) as f64 / settling as f64;
        let expected = shapes as f64 * (-age).exp();
        if left > expected + 1.0 {
            left -= 1.0;
            world.take(workspace);
            world.library(workspace / 2);
        }
    }
}

/// Results that pile up until a batch is done.
pub(crate) fn batches(world: &mut World, end: u64) {
    load(world);
    let batch = world.random.between(60, 400) * SECOND;
    let size = world.random.between(MIB / 2, 8 * MIB);
    let mut done = world.now() + batch;
    while world.now() < end {
        let left = done.saturating_sub(world.now()).max(1);
        world.hold(size, left);
        world.rest(2 * SECOND);
        if world.now() > done {
            done = world.now() + batch;
        }
    }
}

/// Long silence, then a lot at once, held for minutes.
pub(crate) fn bursts(world: &mut World, end: u64) {
    load(world);
    while world.now() < end {
        for _ in 0..world.random.between(10, 60) {
            let size = world.random.between(MIB, 64 * MIB);
            let time = world.random.wait(60 * SECOND);
            world.hold(size, time);
            world.rest(SECOND / 4);
        }
        world.rest(2 * MINUTE);
    }
}

/// Weights: layers of the same sizes, over some seconds to some minutes.
fn load(world: &mut World) {
    let layers = world.random.between(16, 64);
    let sizes: Vec<u64> = (0..4)
        .map(|_| world.random.between(MIB, 90 * MIB))
        .collect();
    let time = world.random.between(5, 200) * SECOND / layers;
    for _ in 0..layers {
        for size in &sizes {
            world.take(*size);
            world.hold(size / 2, time / 2);
        }
        world.until(world.now() + time);
    }
}

/// Leaks of 2 MiB a minute.
pub(crate) const LEAKS: [Leak; 6] = [
    leak(2 * MIB, MINUTE, false, false),
    leak(2 * MIB, MINUTE, true, false),
    leak(MIB / 2, MINUTE / 4, true, false),
    leak(MIB / 16, MINUTE / 32, true, false),
    leak(4 * MIB, 2 * MINUTE, false, false),
    leak(2 * MIB, MINUTE, true, true),
];

const fn leak(size: u64, every: u64, is_random: bool, is_library: bool) -> Leak {
    Leak {
        size,
        every,
        is_random,
        is_library,
    }
}
