//! One exported function: how often it was entered, and what the settings make of it.

use std::{
    ffi::c_void,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::{Code, Outcome};

/// Waits shorter than this spin: a sleep would overshoot them.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// How a library tells its entry counts: `(context, name, length of the name, entries)`.
pub type Visit = extern "C" fn(*mut c_void, *const u8, usize, u64);

/// An exported function's counter and rules.
#[derive(Debug)]
pub struct Call {
    name: &'static str,
    entries: AtomicU64,
    rules: OnceLock<Rules>,
}

/// What the settings ask of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The entry (from 1) that fails, and its code.
    pub failures: Vec<(u64, Code)>,
    /// Every entry fails so.
    pub always: Option<Code>,
    /// The call returns that much later than its work is done.
    pub latency: Option<Duration>,
}

impl Call {
    /// A function that nobody has called.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            entries: AtomicU64::new(0),
            rules: OnceLock::new(),
        }
    }

    /// The exported name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// How often the function was entered, failed calls included.
    pub fn entries(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    /// Sets the rules. The first set wins: a library does it once, when it is loaded.
    pub(crate) fn set_rules(&self, rules: Rules) {
        self.rules.get_or_init(|| rules);
    }

    /// Counts an entry and runs the body, unless a rule fails this entry first.
    #[inline]
    pub fn run(&self, body: impl FnOnce() -> Outcome) -> Outcome {
        let entry = self.entries.fetch_add(1, Relaxed) + 1;
        match self.rules.get() {
            None => body(),
            Some(rules) => rules.apply(entry, body),
        }
    }
}

impl Rules {
    #[cold]
    fn apply(&self, entry: u64, body: impl FnOnce() -> Outcome) -> Outcome {
        let planned = self
            .failures
            .iter()
            .find(|(at, _)| *at == entry)
            .map(|(_, code)| *code);
        let outcome = match planned.or(self.always) {
            Some(code) => Err(code),
            None => body(),
        };
        if let Some(latency) = self.latency {
            wait(latency);
        }
        outcome
    }
}

fn wait(latency: Duration) {
    if latency >= SHORTEST_SLEEP {
        std::thread::sleep(latency);
        return;
    }
    let start = Instant::now();
    while start.elapsed() < latency {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planned_entry_fails_without_running() {
        let call = Call::new("cudaMalloc");
        call.set_rules(Rules {
            failures: vec![(2, Code(2))],
            ..Rules::default()
        });
        let mut ran = 0;
        let outcomes: Vec<Outcome> = (0..3)
            .map(|_| {
                call.run(|| {
                    ran += 1;
                    Ok(())
                })
            })
            .collect();
        assert_eq!(outcomes, [Ok(()), Err(Code(2)), Ok(())]);
        assert_eq!((ran, call.entries()), (2, 3));
    }

    #[test]
    fn latency_is_a_lower_bound() {
        for latency in [Duration::from_micros(200), Duration::from_millis(3)] {
            let call = Call::new("cudaMemcpy");
            call.set_rules(Rules {
                latency: Some(latency),
                ..Rules::default()
            });
            let start = Instant::now();
            call.run(|| Ok(())).expect("no failure planned");
            assert!(start.elapsed() >= latency);
        }
    }
}
