//! When windows open and close: a bucket of time that fills by the budget and empties by cost.

use std::time::Duration;

use agent_common::{CLASSES, ProbeClass};

use super::{
    Share,
    history::{History, SPAN, nanoseconds},
};

/// The longest window, ns, unless its cost is within the budget.
const WINDOW: u64 = 200_000_000;
/// The first one, when it is not known yet what a window costs.
const FIRST_WINDOW: u64 = 20_000_000;
/// No window is shorter, unless the bucket is empty.
const SHORTEST_WINDOW: u64 = 10_000_000;
/// A window that stays open is told of that often, ns.
const STRETCH: u64 = 1_000_000_000;
/// How much time the bucket has at the start, ns.
const HEAD_START: u64 = 5_000_000_000;
/// How much it has at most, ns, unless two windows need more: what was saved up is spent in a
/// minute, beside that minute's own.
const SAVED: u64 = 10_000_000_000;
/// How long after the last capture events are still followed through streams, ns.
const AFTER_CAPTURES: u64 = 10_000_000_000;
/// What a probe that is put on and taken off again costs a thread of the process, ns: the kernel
/// interrupts it for each byte that it changes, and pages are faulted in anew. 49 µs in a virtual machine
/// (Linux 6.18, 2026-11-29): the difference between windows of 173 functions and of 4. Rather too much
/// than too little.
const SWITCH: f64 = 60_000.0;
/// The share of the budget from which on it helps to have a class in windows.
const SOME: f64 = 0.1;
/// Between two looks at the hits.
const CLOSE_LOOK: Duration = Duration::from_millis(10);
const FAR_LOOK: Duration = Duration::from_millis(500);

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Open a window.
    Open,
    /// Close it.
    Close,
    /// Tell of the window until now; it stays open.
    Tell,
    /// What is always on breaks the budget, and this class is why: from now on it comes in
    /// windows, too.
    Sample(ProbeClass),
    /// No capture has begun for a while: if none is open, nobody need see how one spreads.
    LeaveCaptures,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed,
    Open {
        since: u64,
        told: u64,
        /// How long it may be, ns.
        planned: u64,
        /// ns of the busiest thread, since it was last told of.
        cost: f64,
    },
}

/// Decides. All times are ns of one clock, and do not go back.
#[derive(Clone, Debug)]
pub struct Policy {
    budget: f64,
    /// ns that probes may still cost.
    tokens: f64,
    charged: u64,
    state: State,
    /// What a ns of the last window cost, once there was one.
    rate: Option<f64>,
    /// What windowed probes cost since the last window: attaching and detaching take time.
    edges: f64,
    /// Classes that come in windows.
    sampled: [bool; CLASSES],
    /// When the last capture was heard of, while it is followed how captures spread.
    captures: Option<u64>,
    history: History,
}

impl Policy {
    /// All steady probes are on, no window is open.
    pub fn new(budget: Share, now: u64) -> Self {
        let budget = budget.ratio();
        Self {
            budget,
            tokens: budget * nanoseconds(HEAD_START),
            charged: now,
            state: State::Closed,
            rate: None,
            edges: 0.0,
            sampled: ProbeClass::ALL.map(|class| class == ProbeClass::Hot),
            captures: Some(now),
            history: History::default(),
        }
    }

    /// What was spent since the last time: ns of the busiest thread, by class.
    pub fn charge(&mut self, now: u64, cost: [f64; CLASSES]) {
        let passed = now.saturating_sub(self.charged);
        self.charged = now;
        let all: f64 = cost.iter().sum();
        self.tokens += self.budget * nanoseconds(passed) - all;
        // What was spent beyond a minute's budget is not paid back: windows come again some day.
        let deepest = -self.budget * nanoseconds(SPAN);
        self.tokens = self.tokens.clamp(deepest, self.most());
        let sampled = self.sampled(cost);
        match &mut self.state {
            State::Open { cost, .. } => *cost += sampled,
            State::Closed => self.edges += sampled,
        }
        self.history.add(passed, self.is_open(), cost);
    }

    /// What is to be done now, after [`Self::charge`].
    pub fn decide(&self) -> Option<Move> {
        match self.state {
            State::Closed if self.captures_are_over() => Some(Move::LeaveCaptures),
            State::Closed => {
                let opens = || (self.tokens > self.expected()).then_some(Move::Open);
                self.breaks().map(Move::Sample).or_else(opens)
            }
            State::Open { .. } if self.tokens <= 0.0 => Some(Move::Close),
            State::Open {
                since,
                told,
                planned,
                cost,
            } => {
                let length = self.charged.saturating_sub(since);
                if length < planned {
                    return None;
                }
                // What has stayed open goes on until the bucket is empty.
                let stays = length >= 2 * WINDOW || self.fits(cost / nanoseconds(length.max(1)));

                if !stays {
                    Some(Move::Close)
                } else if self.charged.saturating_sub(told) >= STRETCH {
                    Some(Move::Tell)
                } else {
                    None
                }
            }
        }
    }

    /// The window is open.
    pub fn opened(&mut self, now: u64) {
        self.state = State::Open {
            since: now,
            told: now,
            planned: self.planned(),
            cost: 0.0,
        };
    }

    /// The open window was told of.
    pub fn told(&mut self, now: u64) {
        if let State::Open { told, cost, .. } = &mut self.state {
            *told = now;
            *cost = 0.0;
        }
    }

    /// The window is closed; its probes are about to go.
    pub fn closed(&mut self, now: u64) {
        if let State::Open { told, cost, .. } = self.state {
            let length = now.saturating_sub(told).max(1);
            self.rate = Some(cost / nanoseconds(length));
        }
        self.state = State::Closed;
        self.edges = 0.0;
    }

    /// So many probes were put on for the window that has closed, on one process.
    #[expect(clippy::cast_precision_loss, reason = "some hundred")]
    pub fn switched(&mut self, probes: usize) {
        let cost = probes as f64 * SWITCH;
        self.tokens -= cost;
        self.edges += cost;
        let mut by_class = [0.0; CLASSES];
        by_class[ProbeClass::Hot as usize] = cost;
        self.history.add(0, false, by_class);
    }

    /// A class is in windows from now on.
    pub const fn sample(&mut self, class: ProbeClass) {
        self.sampled[class as usize] = true;
    }

    /// Classes that come in windows.
    pub fn samples(&self) -> impl Iterator<Item = ProbeClass> {
        ProbeClass::ALL
            .into_iter()
            .filter(|class| self.sampled[*class as usize])
    }

    /// A capture has begun, or is open.
    pub const fn capturing(&mut self) {
        self.captures = Some(self.charged);
    }

    /// It is not followed any more how captures spread.
    pub const fn captures_left(&mut self) {
        self.captures = None;
    }

    /// Whether it is followed how captures spread.
    pub const fn follows_captures(&self) -> bool {
        self.captures.is_some()
    }

    /// Whether a window is open.
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Until the next look. A thread spends a ns in a ns at most, so a full bucket leaves time.
    pub fn wait(&self) -> Duration {
        let until_empty = Duration::from_secs_f64(self.tokens.max(0.0) / 2e9);
        match self.state {
            State::Open { since, planned, .. } => {
                let planned = (since + planned).saturating_sub(self.charged);
                let until_planned = match planned {
                    0 => FAR_LOOK,
                    left => Duration::from_nanos(left),
                };
                until_empty.min(until_planned).clamp(CLOSE_LOOK, FAR_LOOK)
            }
            State::Closed => {
                let missing = (self.expected() - self.tokens).max(0.0) / self.budget;
                Duration::from_secs_f64(missing / 1e9).clamp(CLOSE_LOOK, FAR_LOOK)
            }
        }
    }

    /// Estimated cost of the last minute, as a share of the busiest thread's time.
    pub fn overhead(&self) -> f64 {
        let rates = ProbeClass::ALL.map(|class| self.history.rate(class as usize, 1));
        rates.iter().sum()
    }

    /// Share of the last minute with an open window.
    pub fn window(&self) -> f64 {
        self.history.window()
    }

    /// Whether what is always on is alone beyond the budget, and stays so.
    pub fn steady_breaks(&self) -> bool {
        let is_spent = self.tokens < 0.0 && self.steady_rate(SPAN) > self.budget;
        is_spent && self.breaks().is_none()
    }

    /// What the bucket holds, ns of the busiest thread: two whole windows if it can, and no more
    /// than a minute's budget.
    fn most(&self) -> f64 {
        let whole = self.rate.map(|rate| rate * nanoseconds(WINDOW));
        let window = whole.unwrap_or(nanoseconds(FIRST_WINDOW)) + self.edges;
        let budget = |time| self.budget * nanoseconds(time);
        budget(SAVED).max(2.0 * window).min(budget(SPAN))
    }

    /// Of a cost, what windows are for.
    fn sampled(&self, cost: [f64; CLASSES]) -> f64 {
        self.samples().map(|class| cost[class as usize]).sum()
    }

    fn rate_of(&self, class: ProbeClass) -> f64 {
        self.history.rate(class as usize, HEAD_START)
    }

    /// What is always on, captures aside: ns for each ns, over so much time at least.
    fn steady_rate(&self, least: u64) -> f64 {
        [ProbeClass::Steady, ProbeClass::Torch, ProbeClass::Memory]
            .into_iter()
            .filter(|class| !self.sampled[*class as usize])
            .map(|class| self.history.rate(class as usize, least))
            .sum()
    }

    /// Whether a window of this cost for each ns can stay open.
    fn fits(&self, rate: f64) -> bool {
        let captures = match self.captures {
            Some(_) => self.rate_of(ProbeClass::Capture),
            None => 0.0,
        };
        rate + captures + self.steady_rate(HEAD_START) <= self.budget
    }

    fn captures_are_over(&self) -> bool {
        let is_long_ago = |last| self.charged.saturating_sub(last) >= AFTER_CAPTURES;
        self.captures.is_some_and(is_long_ago)
    }

    /// The class that has to come in windows, where the budget is spent, and not by these.
    fn breaks(&self) -> Option<ProbeClass> {
        if self.tokens >= 0.0 {
            return None;
        }
        let [torch, memory] = [ProbeClass::Torch, ProbeClass::Memory];
        let share = |class, least| {
            let is_always_on = !self.sampled[class as usize];
            is_always_on.then(|| self.history.rate(class as usize, least))
        };
        // Blocks of PyTorch's can be done without, if that is of use.
        let torch_is_some = share(torch, HEAD_START) > Some(SOME * self.budget);
        if torch_is_some && self.steady_rate(HEAD_START) > self.budget {
            return Some(torch);
        }
        // Who holds memory is what most is asked for, and not to be had again once it was not seen how it
        // changed: neither a start that allocates much, nor other calls, are a reason.
        let memory_is_most = share(memory, SPAN) >= Some(self.steady_rate(SPAN) / 2.0);
        (memory_is_most && self.steady_rate(SPAN) > self.budget).then_some(memory)
    }

    /// How long the next window may be, ns: half a full bucket must do for it.
    fn planned(&self) -> u64 {
        let Some(rate) = self.rate else {
            return FIRST_WINDOW;
        };
        let affordable = (self.most() / 2.0 - self.edges) / rate.max(f64::MIN_POSITIVE);
        if affordable >= nanoseconds(WINDOW) {
            WINDOW
        } else {
            // Saturates, for what is no number, too.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "below WINDOW, and clamped"
            )]
            let affordable = affordable as u64;
            affordable.max(SHORTEST_WINDOW)
        }
    }

    /// What the next window is going to cost, ns of the busiest thread.
    fn expected(&self) -> f64 {
        // A thread cannot spend more than all of its time.
        self.rate.unwrap_or(1.0) * nanoseconds(self.planned()) + self.edges
    }
}

#[cfg(test)]
mod tests;
