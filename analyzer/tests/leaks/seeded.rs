//! Two hundred programs in virtual time, half of them healthy: how many leaks are found, and how
//! often a healthy program is blamed.
//!
//! Other seeds than those of the test: `LEAK_SEEDS=1000..1400 cargo test -p analyzer --release
//! --test leaks seeded -- --nocapture`.

use analyzer::findings::{Family, Severity};

use crate::workloads::{ALL, LEAKS};
use crate::world::{MINUTE, World};
use crate::{found, report};

/// Length of a trace.
const LENGTH: u64 = 30 * MINUTE;

#[test]
fn seeded_programs() {
    let seeds = std::env::var("LEAK_SEEDS").map_or(0..200, |seeds| {
        let (from, to) = seeds.split_once("..").expect("FROM..TO");
        from.parse().expect("a seed")..to.parse().expect("a seed")
    });
    let (mut leaks, mut missed, mut healthy, mut alarms) = (0, 0, 0, 0);
    for seed in seeds {
        let workload = (seed / 2 % ALL.len() as u64) as usize;
        let leak = (seed % 2 == 1).then(|| LEAKS[(seed / 10 % LEAKS.len() as u64) as usize]);
        let mut world = World::new(seed, leak);
        ALL[workload](&mut world, LENGTH);
        let report = report(&world.finish());
        let urgent = found(&report, Severity::Warning);
        if leak.is_some() {
            leaks += 1;
            if !urgent.iter().any(|finding| finding.family == Family::Leak) {
                missed += 1;
                println!("missed: seed {seed}, workload {workload}, {leak:?}");
            }
        } else {
            healthy += 1;
            if let Some(finding) = urgent.first() {
                alarms += 1;
                println!("alarm: seed {seed}, workload {workload}: {}", finding.claim);
            }
        }
    }
    println!("{missed} of {leaks} leaks missed, {alarms} of {healthy} healthy programs blamed");
    assert!(missed * 100 <= leaks, "more than 1 % of leaks missed");
    assert!(alarms * 100 <= healthy, "more than 1 % false alarms");
}
