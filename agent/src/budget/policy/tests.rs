//! The policy in virtual time.

use super::*;
use crate::budget::MaxOverhead;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

fn policy(text: &str) -> Policy {
    let budget: MaxOverhead = text.parse().expect("a budget");
    Policy::new(budget.share().expect("a share"), 0)
}

/// A process, in virtual time.
#[derive(Debug)]
struct World {
    policy: Policy,
    now: u64,
    /// Cost of a ns, by class, while that class is probed.
    rates: [f64; CLASSES],
    is_capturing: bool,
    /// How many come and go.
    probes: usize,
    /// ns that attaching takes, and detaching.
    edge: u64,
    spent: f64,
    open: u64,
    windows: u32,
    longest: u64,
    /// When the open window opened.
    since: u64,
}

impl World {
    fn new(budget: &str, rates: [f64; CLASSES]) -> Self {
        Self {
            policy: policy(budget),
            now: 0,
            rates,
            is_capturing: false,
            probes: 0,
            edge: 50 * MS,
            spent: 0.0,
            open: 0,
            windows: 0,
            longest: 0,
            since: 0,
        }
    }

    fn samples(&self, class: ProbeClass) -> bool {
        self.policy.samples().any(|sampled| sampled == class)
    }

    fn pass(&mut self, time: u64, hot: bool) {
        let cost = ProbeClass::ALL.map(|class| {
            let is_on = match class {
                ProbeClass::Capture => self.policy.follows_captures(),
                ProbeClass::Steady | ProbeClass::Torch | ProbeClass::Hot | ProbeClass::Memory => {
                    hot || !self.samples(class)
                }
            };
            let rate = if is_on {
                self.rates[class as usize]
            } else {
                0.0
            };
            rate * nanoseconds(time)
        });
        self.spent += cost.iter().sum::<f64>();
        self.now += time;
        self.policy.charge(self.now, cost);
    }

    fn run(&mut self, until: u64) {
        while self.now < until {
            let wait = u64::try_from(self.policy.wait().as_nanos()).expect("short");
            self.pass(wait, self.policy.is_open());
            match self.policy.decide() {
                Some(Move::Open) => {
                    self.pass(self.edge, true);
                    self.policy.opened(self.now);
                    self.since = self.now;
                    self.windows += 1;
                }
                Some(Move::Close) => {
                    let length = self.now - self.since;
                    self.longest = self.longest.max(length);
                    self.open += length;
                    self.policy.closed(self.now);
                    self.policy.switched(self.probes);
                    self.pass(self.edge, true);
                }
                Some(Move::Tell) => self.policy.told(self.now),
                Some(Move::Sample(class)) => self.policy.sample(class),
                Some(Move::LeaveCaptures) if self.is_capturing => self.policy.capturing(),
                Some(Move::LeaveCaptures) => self.policy.captures_left(),
                None => {}
            }
        }
    }
}

#[test]
fn a_storm_is_sampled_within_the_budget() {
    for (text, budget) in [("1%", 0.01), ("5%", 0.05), ("0.1%", 0.001)] {
        let mut world = World::new(text, [0.0, 0.0, 0.9, 0.0, 0.0]);
        world.run(600 * SECOND);
        let overhead = world.spent / nanoseconds(world.now);
        assert!(overhead <= 1.1 * budget, "{text}: {overhead}");
        assert!(overhead >= 0.5 * budget, "{text}: {overhead}");
        assert!(world.windows > 3, "{text}: {}", world.windows);
        assert!(world.longest <= WINDOW + 20 * MS, "{text}");
    }
}

#[test]
fn what_fits_is_seen_all_the_time() {
    let mut world = World::new("1%", [0.002, 0.001, 0.005, 0.0, 0.0]);
    world.run(100 * SECOND);
    assert_eq!(world.windows, 1);
    assert!(world.policy.is_open() && world.policy.window() > 0.99);
    assert!((world.policy.overhead() - 0.008).abs() < 0.0005);
}

#[test]
fn a_storm_after_a_quiet_time_ends_what_stayed_open() {
    let mut world = World::new("1%", [0.0, 0.0, 0.0001, 0.0, 0.0]);
    world.run(100 * SECOND);
    assert!(world.policy.is_open());
    world.rates = [0.0, 0.0, 0.9, 0.0, 0.0];
    let (before, quiet) = (world.spent, world.now);
    world.run(700 * SECOND);
    let overhead = (world.spent - before) / nanoseconds(world.now - quiet);
    assert!(overhead < 0.0125, "{overhead}");
}

/// A program that loads for minutes, and then launches graph after graph, as an engine does.
#[test]
fn no_minute_costs_much_more_than_the_budget() {
    let mut world = World::new("1%", [0.0; CLASSES]);
    world.run(200 * SECOND);
    world.rates = [0.001, 0.0, 0.11, 0.0, 0.0];
    let mut most: f64 = 0.0;
    for second in 200..800 {
        world.run(second * SECOND);
        most = most.max(world.policy.overhead());
    }
    assert!(most < 0.0125, "{most}");
    assert!(world.policy.overhead() > 0.008);
    assert!(world.policy.window() > 0.05);
}

#[test]
fn torch_goes_when_it_breaks_the_budget_and_not_before() {
    let mut fits = World::new("1%", [0.0, 0.008, 0.9, 0.0, 0.0]);
    fits.run(300 * SECOND);
    assert!(!fits.samples(ProbeClass::Torch));
    let mut breaks = World::new("1%", [0.0, 0.03, 0.1, 0.0, 0.0]);
    breaks.run(300 * SECOND);
    assert!(breaks.samples(ProbeClass::Torch));
    assert!(breaks.windows > 3);
    assert!(
        breaks.policy.overhead() < 0.011,
        "{}",
        breaks.policy.overhead()
    );
}

/// Where probes that come and go are dear, windows are rarer, and the budget holds.
#[test]
fn what_comes_and_goes_is_paid_for() {
    let mut few = World::new("1%", [0.0, 0.0, 0.1, 0.0, 0.0]);
    few.run(600 * SECOND);
    let mut many = World::new("1%", [0.0, 0.0, 0.1, 0.0, 0.0]);
    many.probes = 200;
    many.run(600 * SECOND);
    assert!(many.windows < few.windows && many.windows > 10);
    for world in [few, many] {
        assert!(world.policy.overhead() < 0.011, "{world:?}");
        assert!(world.policy.overhead() > 0.008, "{world:?}");
    }
}

/// An engine that puts events into streams at each step, and has captured all it will.
#[test]
fn captures_are_followed_while_there_are_any() {
    let mut world = World::new("1%", [0.003, 0.0, 0.3, 0.008, 0.0]);
    world.is_capturing = true;
    world.run(60 * SECOND);
    assert!(world.policy.follows_captures());
    world.is_capturing = false;
    world.run(300 * SECOND);
    assert!(!world.policy.follows_captures());
    assert!(!world.samples(ProbeClass::Torch));
    assert!(world.policy.window() > 0.01, "{}", world.policy.window());
    assert!(world.policy.overhead() < 0.011);
    world.policy.capturing();
    world.run(305 * SECOND);
    assert!(world.policy.follows_captures());
}

#[test]
fn what_fits_is_followed_through_captures_all_the_time() {
    let mut world = World::new("1%", [0.001, 0.0, 0.002, 0.001, 0.0]);
    world.run(100 * SECOND);
    assert!(world.policy.is_open() && world.policy.follows_captures());
}

#[test]
fn what_is_always_on_can_leave_nothing_for_windows() {
    let mut world = World::new("1%", [0.02, 0.0, 0.5, 0.0, 0.0]);
    world.run(30 * SECOND);
    let windows = world.windows;
    world.run(300 * SECOND);
    assert_eq!(world.windows, windows);
    assert!(world.policy.steady_breaks());
}

/// A program without a caching allocator, which allocates at each step.
#[test]
fn memory_calls_that_break_the_budget_come_in_windows() {
    let mut fits = World::new("1%", [0.001, 0.0, 0.5, 0.0, 0.007]);
    fits.run(600 * SECOND);
    assert!(!fits.samples(ProbeClass::Memory));
    let mut breaks = World::new("1%", [0.001, 0.0, 0.5, 0.0, 0.1]);
    breaks.run(600 * SECOND);
    assert!(breaks.samples(ProbeClass::Memory) && !breaks.samples(ProbeClass::Torch));
    assert!(breaks.windows > 3 && !breaks.policy.steady_breaks());
    assert!(breaks.policy.overhead() < 0.011, "{breaks:?}");
}

#[test]
fn a_start_that_allocates_much_is_no_reason_to_lose_memory_from_sight() {
    let mut world = World::new("1%", [0.0, 0.0, 0.01, 0.0, 0.2]);
    world.run(2 * SECOND);
    world.rates = [0.0, 0.0, 0.3, 0.0, 0.001];
    world.run(300 * SECOND);
    assert!(!world.samples(ProbeClass::Memory));
    assert!(world.windows > 3);
}

/// Of PyTorch's reports and memory calls, those go that are too many.
#[test]
fn who_breaks_the_budget_goes() {
    let mut graphs = World::new("1%", [0.03, 0.0, 0.1, 0.0, 0.002]);
    graphs.run(600 * SECOND);
    assert!(!graphs.samples(ProbeClass::Memory) && graphs.policy.steady_breaks());
    let mut memory = World::new("1%", [0.0, 0.0005, 0.1, 0.0, 0.05]);
    memory.run(600 * SECOND);
    assert!(memory.samples(ProbeClass::Memory) && !memory.samples(ProbeClass::Torch));
    let mut both = World::new("1%", [0.0, 0.05, 0.1, 0.0, 0.05]);
    both.run(600 * SECOND);
    assert!(both.samples(ProbeClass::Memory) && both.samples(ProbeClass::Torch));
    for world in [memory, both] {
        assert!(world.policy.overhead() < 0.011, "{world:?}");
    }
}

/// Neither is most of it, and both together leave nothing: that is said.
#[test]
fn what_is_kept_although_it_breaks_the_budget_is_told() {
    let mut world = World::new("1%", [0.007, 0.0, 0.5, 0.0, 0.005]);
    world.run(600 * SECOND);
    assert!(!world.samples(ProbeClass::Memory) && world.policy.steady_breaks());
}

#[test]
fn windows_come_again_soon_after_what_was_too_much() {
    let mut world = World::new("1%", [0.03, 0.0, 0.1, 0.0, 0.0]);
    world.run(900 * SECOND);
    let windows = world.windows;
    world.rates[ProbeClass::Steady as usize] = 0.001;
    world.run(1100 * SECOND);
    assert!(world.windows > windows + 3, "{world:?}");
}
