//! Calls that are traced in windows: what they stand for is known when their window is over.

use agent_common::{Api, ApiId, Effect, Family, ProbeClass, flags};
use ledger::Process;
use rustc_hash::FxHashMap;
use trace::{Event, Kind, fact};

use super::{calls::Durations, copies::Copies, histogram::DURATION, lanes::Ending};

/// Of which calls figures are estimates, with names of their own. A function's count keeps one name:
/// it goes on under the other one when its calls begin to come in windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Estimates {
    /// Of none: there is no overhead budget.
    None,
    /// Of all that a budget may have traced in windows, whether it does or not; memory calls aside.
    Budget,
    /// And of memory calls.
    Memory,
}

impl Estimates {
    /// Whether there is a budget.
    pub(super) fn are_some(self) -> bool {
        self != Self::None
    }

    /// Whether those of this function are.
    #[inline]
    pub(super) fn has(self, api: &Api) -> bool {
        match api.class() {
            ProbeClass::Torch | ProbeClass::Hot => self.are_some(),
            ProbeClass::Memory => self == Self::Memory,
            ProbeClass::Steady | ProbeClass::Capture => false,
        }
    }
}

/// Calls of a window.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// By process, function and end.
    pub(super) calls: FxHashMap<(u32, u16, Ending), u64>,
    /// By function and code.
    pub(super) errors: FxHashMap<(u16, i32), u64>,
    /// By function.
    pub(super) durations: FxHashMap<u16, Durations>,
    /// By process and kernel.
    pub(super) launches: FxHashMap<(u32, Option<u32>), u64>,
    pub(super) captured: u64,
    /// By process.
    pub(super) copies: FxHashMap<u32, Copies>,
    /// ns, by process.
    pub(super) waited: FxHashMap<u32, u64>,
}

impl Tally {
    fn add(
        &mut self,
        id: ApiId,
        api: &Api,
        event: &Event,
        ending: Ending,
        memory: Option<&Process>,
    ) {
        let pid = event.pid;
        *self.calls.entry((pid, id.0, ending)).or_default() += 1;
        if let Some(code) = event.result.filter(|_| ending == Ending::Error) {
            *self.errors.entry((id.0, code)).or_default() += 1;
        }
        if let (Some(ns), Kind::Call) = (event.duration, event.kind) {
            let durations = self.durations.entry(id.0);
            let durations = durations.or_insert_with(|| Durations::new(&DURATION));
            durations.add(ns);
        }
        let is_captured = event.flags & flags::CAPTURED != 0;
        if api.effect == Effect::Launch && ending != Ending::Error {
            if is_captured {
                self.captured += 1;
            } else {
                *self.launches.entry((pid, event.kernel)).or_default() += 1;
            }
        } else if api.effect == Effect::Wait {
            let waited = self.waited.entry(pid).or_default();
            *waited = waited.saturating_add(event.duration.unwrap_or(0));
        } else if api.effect == Effect::Copy && ending == Ending::Success && !is_captured {
            self.copies.entry(pid).or_default().add(event, memory);
        }
    }
}

/// A tally, and how many calls each of its calls stands for.
pub(super) type Weighted = (Tally, f64);

/// The windows.
#[derive(Debug, Default)]
pub(super) struct Sampled {
    /// Calls of a window that has not been told of.
    open: Tally,
    /// Calls of windows that have: they come when the ring buffer is slow, or when the thread is
    /// next seen.
    late: Tally,
    /// The last window that was told of: its end, and its weight.
    last: Option<(u64, f64)>,
    /// PyTorch's reports come in windows.
    torch: bool,
    /// Memory calls do.
    memory: bool,
}

impl Sampled {
    /// Takes in a call.
    pub(super) fn add(
        &mut self,
        id: ApiId,
        api: &Api,
        event: &Event,
        ending: Ending,
        memory: Option<&Process>,
    ) {
        let is_late = self.last.is_some_and(|(until, _)| event.timestamp <= until);
        let tally = if is_late {
            &mut self.late
        } else {
            &mut self.open
        };
        tally.add(id, api, event, ending, memory);
    }

    /// PyTorch's reports come in windows from now on.
    pub(super) const fn sample_torch(&mut self) {
        self.torch = true;
    }

    /// Memory calls do.
    pub(super) const fn sample_memory(&mut self) {
        self.memory = true;
    }

    /// Whether calls of this function come in windows.
    #[inline]
    pub(super) const fn has(&self, api: &Api) -> bool {
        match api.class() {
            ProbeClass::Hot => true,
            ProbeClass::Torch => self.torch,
            ProbeClass::Memory => self.memory,
            ProbeClass::Steady | ProbeClass::Capture => false,
        }
    }

    /// Whether calls of this family come in windows.
    pub(super) const fn has_family(&self, family: Family) -> bool {
        match family {
            Family::Launch | Family::Copy | Family::Sync => true,
            Family::Torch => self.torch,
            Family::Memory => self.memory,
            Family::Graph | Family::Module | Family::Device => false,
        }
    }

    /// A window is over.
    pub(super) fn window(&mut self, window: &fact::Window) -> [Weighted; 2] {
        let late = self.late();
        // What a damaged fact might say must not make counters worthless.
        let weight = if window.weight.is_finite() {
            window.weight.max(1.0)
        } else {
            1.0
        };
        self.last = Some((window.until, weight));
        [late, (std::mem::take(&mut self.open), weight)]
    }

    /// What came late.
    pub(super) fn late(&mut self) -> Weighted {
        (std::mem::take(&mut self.late), self.weight())
    }

    /// All there is, before a process goes: as if the open window were like the last.
    pub(super) fn all(&mut self) -> [Weighted; 2] {
        let weight = self.weight();
        [self.late(), (std::mem::take(&mut self.open), weight)]
    }

    /// Another session begins.
    pub(super) fn begin(&mut self) -> [Weighted; 2] {
        let all = self.all();
        *self = Self::default();
        all
    }

    fn weight(&self) -> f64 {
        self.last.map_or(1.0, |(_, weight)| weight)
    }
}

/// So many calls as these stand for.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an estimate; it saturates"
)]
pub(super) fn scaled(count: u64, weight: f64) -> u64 {
    (count as f64 * weight).round() as u64
}
