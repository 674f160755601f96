//! Launches by kernel: those launched most have series of their own.
//!
//! Which kernels those are changes: a server launches hundreds once, at its start. A kernel that
//! gets a series begins there at 0, with what it had counted before under `other`, so that no
//! series ever goes down.

use std::{cmp::Reverse, sync::Arc};

use rustc_hash::{FxHashMap, FxHashSet};
use trace::{Fact, fact};

use super::limits::{KERNEL_NAME, KERNELS, OTHER, UNKNOWN, label};

/// Most kernels, by id, and most names that are told apart.
const IDS: usize = 1 << 17;
const NAMES: usize = 1 << 13;
/// Series that may change hands in one turn.
const SWAPS: usize = 8;

/// Launches of all processes.
#[derive(Debug, Default)]
pub(super) struct Kernels {
    ids: FxHashMap<u32, Kernel>,
    names: Vec<Name>,
    by_label: FxHashMap<Arc<str>, usize>,
    /// Names as the compiler made them, and modules, each kept once.
    texts: FxHashSet<Arc<str>>,
    other: u64,
    unknown: u64,
    /// Launches that went into a graph.
    pub(super) captured: u64,
    /// Kernels that found no series when they came.
    pub(super) refused: u64,
}

#[derive(Debug)]
struct Kernel {
    pid: u32,
    counted: Counted,
    handle: u64,
    name: Option<Arc<str>>,
    module: Option<Arc<str>>,
}

/// Where the launches of a kernel are counted.
#[derive(Clone, Copy, Debug)]
enum Counted {
    /// Nowhere, until it is known what the kernel is: so many.
    Waiting(u64),
    Name(usize),
    Other,
    Unknown,
}

#[derive(Debug)]
struct Name {
    label: Arc<str>,
    /// Launches of late.
    recent: u64,
    /// Launches while it had a series of its own.
    own: u64,
    /// Whether it has one now.
    is_listed: bool,
}

impl Kernels {
    #[inline]
    pub(super) fn launch(&mut self, pid: u32, kernel: Option<u32>, more: u64) {
        let Some(id) = kernel else {
            self.unknown += more;
            return;
        };
        let Some(kernel) = self.ids.get_mut(&id) else {
            return self.first_launch(pid, id, more);
        };
        match &mut kernel.counted {
            Counted::Waiting(launches) => *launches += more,
            Counted::Unknown => self.unknown += more,
            Counted::Other => self.other += more,
            Counted::Name(name) => {
                let name = *name;
                self.count(name, more);
            }
        }
    }

    fn first_launch(&mut self, pid: u32, id: u32, more: u64) {
        if self.ids.len() >= IDS {
            self.unknown += more;
            return;
        }
        let kernel = Kernel {
            pid,
            counted: Counted::Waiting(more),
            handle: 0,
            name: None,
            module: None,
        };
        self.ids.insert(id, kernel);
    }

    fn count(&mut self, name: usize, launches: u64) {
        let name = &mut self.names[name];
        name.recent += launches;
        if name.is_listed {
            name.own += launches;
        } else {
            self.other += launches;
        }
    }

    /// What a kernel of a process is.
    pub(super) fn named(&mut self, pid: u32, fact: &fact::Kernel) {
        let waiting = match self.ids.get(&fact.id).map(|kernel| kernel.counted) {
            Some(Counted::Waiting(launches)) => launches,
            // Told again: what was counted stays where it is.
            Some(Counted::Name(_) | Counted::Other) => return,
            None if self.ids.len() >= IDS => return,
            Some(Counted::Unknown) | None => 0,
        };
        let counted = match fact.name.as_deref() {
            None => Counted::Unknown,
            Some(name) => self.entry(name),
        };
        match counted {
            Counted::Name(name) => self.count(name, waiting),
            Counted::Other => self.other += waiting,
            Counted::Unknown | Counted::Waiting(_) => self.unknown += waiting,
        }
        let kernel = Kernel {
            pid,
            counted,
            handle: fact.handle,
            name: fact.name.as_deref().map(|text| self.text(text)),
            module: fact.module.as_deref().map(|text| self.text(text)),
        };
        self.ids.insert(fact.id, kernel);
    }

    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }

    fn entry(&mut self, name: &str) -> Counted {
        let short = analyzer::demangle::short(name, KERNEL_NAME);
        let mut label = label(&short, KERNEL_NAME);
        if label == OTHER || label == UNKNOWN {
            label.push_str("()");
        }
        if let Some(name) = self.by_label.get(label.as_str()) {
            return Counted::Name(*name);
        }
        if self.names.len() >= NAMES {
            self.refused += 1;
            return Counted::Other;
        }
        let label: Arc<str> = label.into();
        let has_room = self.names.iter().filter(|name| name.is_listed).count() < KERNELS;
        self.refused += u64::from(!has_room);
        self.by_label.insert(Arc::clone(&label), self.names.len());
        self.names.push(Name {
            label,
            recent: 0,
            own: 0,
            is_listed: has_room,
        });
        Counted::Name(self.names.len() - 1)
    }

    /// A process has ended, and its kernels' ids with it.
    pub(super) fn forget(&mut self, pid: u32) {
        let unknown = &mut self.unknown;
        self.ids.retain(|_, kernel| {
            let stays = kernel.pid != pid;
            if let (false, Counted::Waiting(launches)) = (stays, kernel.counted) {
                *unknown += launches;
            }
            stays
        });
        self.texts.retain(|text| Arc::strong_count(text) > 1);
    }

    /// All processes have ended.
    pub(super) fn forget_all(&mut self) {
        let pids: FxHashSet<u32> = self.ids.values().map(|kernel| kernel.pid).collect();
        for pid in pids {
            self.forget(pid);
        }
    }

    /// From time to time: series go to those kernels that are launched far more than others which
    /// have one.
    pub(super) fn rank(&mut self) {
        let recent = |name: &usize| self.names[*name].recent;
        let (mut listed, mut unlisted): (Vec<usize>, Vec<usize>) =
            (0..self.names.len()).partition(|name| self.names[*name].is_listed);
        listed.sort_by_key(recent);
        unlisted.sort_by_key(|name| Reverse(recent(name)));
        for (least, most) in listed.into_iter().zip(unlisted).take(SWAPS) {
            if self.names[most].recent <= self.names[least].recent.saturating_mul(2) {
                break;
            }
            self.names[least].is_listed = false;
            self.names[most].is_listed = true;
        }
        for name in &mut self.names {
            name.recent /= 2;
        }
    }

    /// Labels and launches.
    pub(super) fn series(&self) -> impl Iterator<Item = (Arc<str>, u64)> {
        let own = self.names.iter().filter(|name| name.is_listed);
        let own = own.map(|name| (Arc::clone(&name.label), name.own));
        let rest = [(OTHER, self.other), (UNKNOWN, self.unknown)];
        let rest = rest.into_iter().filter(|(_, launches)| *launches > 0);
        own.chain(rest.map(|(label, launches)| (label.into(), launches)))
    }

    /// What the ids mean, as the facts that said so, each with its process.
    pub(super) fn facts(&self) -> impl Iterator<Item = (u32, Fact)> {
        let told = self.ids.iter();
        let told = told.filter(|(_, kernel)| !matches!(kernel.counted, Counted::Waiting(_)));
        told.map(|(id, kernel)| {
            let fact = fact::Kernel {
                id: *id,
                name: kernel.name.as_deref().map(str::to_owned),
                module: kernel.module.as_deref().map(str::to_owned),
                handle: kernel.handle,
            };
            (kernel.pid, Fact::Kernel(fact))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn fact(id: u32, name: Option<&str>) -> fact::Kernel {
        fact::Kernel {
            id,
            name: name.map(str::to_owned),
            module: None,
            handle: 0,
        }
    }

    fn series(kernels: &Kernels) -> BTreeMap<String, u64> {
        let series = kernels.series();
        series
            .map(|(label, count)| (label.to_string(), count))
            .collect()
    }

    #[test]
    fn launches_wait_for_their_name() {
        let mut kernels = Kernels::default();
        kernels.launch(1, Some(0), 1);
        kernels.launch(1, Some(1), 1);
        assert_eq!(series(&kernels), BTreeMap::new());
        kernels.named(1, &fact(0, Some("_Z11gemm_kernelPfi")));
        kernels.named(1, &fact(1, None));
        kernels.launch(1, Some(0), 1);
        kernels.launch(1, None, 1);
        let expected = [("gemm_kernel".to_owned(), 2), ("unknown".to_owned(), 2)];
        assert_eq!(series(&kernels), BTreeMap::from(expected));
    }

    #[test]
    fn the_kernel_of_two_processes_is_one() {
        let mut kernels = Kernels::default();
        for (pid, id) in [(1, 0), (2, 1)] {
            kernels.named(pid, &fact(id, Some("one\n\"kernel\"")));
            kernels.launch(pid, Some(id), 1);
        }
        let expected = [("one\u{fffd}\"kernel\"".to_owned(), 2)];
        assert_eq!(series(&kernels), BTreeMap::from(expected));
    }

    #[test]
    fn a_kernel_that_is_launched_most_gets_a_series_and_none_goes_down() {
        let mut kernels = Kernels::default();
        for id in 0..200 {
            kernels.named(1, &fact(id, Some(&format!("kernel{id}"))));
            kernels.launch(1, Some(id), 1);
        }
        let before = series(&kernels);
        assert_eq!(before.len(), KERNELS + 1);
        assert_eq!(before["other"], 150);
        for _ in 0..1000 {
            kernels.launch(1, Some(199), 1);
        }
        kernels.rank();
        kernels.launch(1, Some(199), 1);
        let after = series(&kernels);
        assert_eq!(after["kernel199"], 1);
        assert_eq!(after["other"], 1150);
        assert_eq!(after.len(), KERNELS + 1);
        for (label, count) in before {
            assert!(after.get(&label).is_none_or(|later| *later >= count));
        }
    }
}
