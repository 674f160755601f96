//! Processes by their labels.
//!
//! A label is a process's title; the second process of that title at a time has `#2` appended. What
//! is counted stands with the label: a process that takes a label over from one that ended goes
//! on counting there, so counters never go down.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agent_common::{APIS, Api, ApiId};
use rustc_hash::FxHashMap;
use trace::fact;

use super::{
    copies::Copies,
    limits::{Budget, CALLS, OTHER, PROCESSES, TITLE, UNKNOWN, label},
    sampled::Estimates,
};

/// Most processes whose titles are kept; the rest count as other.
const KEPT: usize = 1 << 16;

/// A label stays that long after the end of its process, even if others wait for one.
const DORMANT: Duration = Duration::from_mins(10);

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ending {
    Success,
    Error,
    /// Its return was not seen.
    Unknown,
}

impl Ending {
    pub(super) const ALL: [Self; 3] = [Self::Success, Self::Error, Self::Unknown];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Unknown => UNKNOWN,
        }
    }
}

/// What is counted with a label.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) label: Arc<str>,
    /// The label without number.
    title: Arc<str>,
    pid: Option<u32>,
    /// Since when there is no process.
    dormant: Option<Instant>,
    /// By function and [`Ending`].
    calls: Vec<[Calls; 3]>,
    pub(super) copies: Copies,
    pub(super) waited_ns: u64,
    pub(super) graph_launches: u64,
    pub(super) failed_allocations: u64,
    pub(super) retried_allocations: u64,
    pub(super) out_of_memory: u64,
}

/// Calls of one series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Calls {
    #[default]
    None,
    /// They have a series of their own.
    Own(u64),
    /// There was none left.
    Elsewhere,
}

impl Lane {
    fn new(label: Arc<str>, title: Arc<str>) -> Self {
        Self {
            label,
            title,
            pid: None,
            dormant: None,
            calls: vec![[Calls::None; 3]; APIS.len()],
            copies: Copies::default(),
            waited_ns: 0,
            graph_launches: 0,
            failed_allocations: 0,
            retried_allocations: 0,
            out_of_memory: 0,
        }
    }

    /// Calls with a series of their own.
    pub(super) fn calls(&self) -> impl Iterator<Item = (ApiId, Ending, u64)> {
        ApiId::all().zip(&self.calls).flat_map(|(api, calls)| {
            Ending::ALL
                .into_iter()
                .zip(calls)
                .filter_map(move |(ending, calls)| match calls {
                    Calls::Own(count) => Some((api, ending, *count)),
                    Calls::None | Calls::Elsewhere => None,
                })
        })
    }
}

#[derive(Debug)]
struct Known {
    title: Arc<str>,
    /// 0 where it is not known yet.
    start_time: u64,
    home: Home,
    lane: Option<usize>,
}

/// Where a process runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Home {
    /// The id of its container.
    pub(super) container: Option<Arc<str>>,
    /// The uid of its pod.
    pub(super) pod_uid: Option<Arc<str>>,
}

/// All labels.
#[derive(Debug)]
pub(super) struct Lanes {
    /// What is estimated, and counted apart.
    pub(super) estimates: Estimates,
    /// The first is that of all processes without one of their own.
    all: Vec<Lane>,
    processes: FxHashMap<u32, Known>,
    /// The last process that was asked for.
    last: (u32, usize),
    budget: Budget,
    /// Calls without a series, those that are estimated apart, by layer and [`Ending`].
    pub(super) elsewhere: [[[u64; 3]; 3]; 2],
    /// Processes that found no label.
    pub(super) unlabelled: u64,
}

const OTHERS: usize = 0;

/// A process that has a label, as it was when last looked at.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Titled {
    pub(in crate::serve) pid: u32,
    pub(in crate::serve) start_time: u64,
    pub(in crate::serve) title: Arc<str>,
}

impl Lanes {
    pub(super) fn new(estimates: Estimates) -> Self {
        let other: Arc<str> = OTHER.into();
        Self {
            estimates,
            all: vec![Lane::new(Arc::clone(&other), other)],
            processes: FxHashMap::default(),
            last: (0, OTHERS),
            budget: Budget::new(CALLS),
            elsewhere: [[[0; 3]; 3]; 2],
            unlabelled: 0,
        }
    }

    /// What is counted for a process.
    #[inline]
    pub(super) fn of(&mut self, pid: u32) -> &mut Lane {
        let lane = self.index(pid);
        &mut self.all[lane]
    }

    #[inline]
    fn index(&mut self, pid: u32) -> usize {
        if self.last.0 != pid {
            let known = self.processes.get(&pid).and_then(|known| known.lane);
            self.last = (pid, known.unwrap_or_else(|| self.assign(pid)));
        }
        self.last.1
    }

    /// Counts calls.
    #[inline]
    pub(super) fn call(&mut self, pid: u32, id: ApiId, api: &Api, ending: Ending, more: u64) {
        let lane = self.index(pid);
        let ending = ending as usize;
        let elsewhere = &mut self.elsewhere[usize::from(self.estimates.has(api))];
        let elsewhere = &mut elsewhere[api.layer as usize][ending];
        let Some(calls) = self.all[lane].calls.get_mut(usize::from(id.0)) else {
            return;
        };
        match &mut calls[ending] {
            Calls::Own(count) => *count += more,
            Calls::Elsewhere => *elsewhere += more,
            none @ Calls::None => {
                if self.budget.claim() {
                    *none = Calls::Own(more);
                } else {
                    *none = Calls::Elsewhere;
                    *elsewhere += more;
                }
            }
        }
    }

    /// The label that a process has now.
    pub(super) fn label(&self, pid: u32) -> &Arc<str> {
        let known = self.processes.get(&pid).and_then(|known| known.lane);
        &self.all[known.unwrap_or(OTHERS)].label
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Lane> {
        self.all.iter()
    }

    /// How many processes there are.
    pub(super) fn processes(&self) -> u64 {
        self.processes.len() as u64
    }

    /// Series that could not be had.
    pub(super) const fn refused(&self) -> u64 {
        self.budget.refused
    }

    /// The labels of processes that live in containers, and which these are.
    pub(super) fn homes(&self) -> impl Iterator<Item = (&Arc<str>, &Home)> {
        self.all.iter().filter_map(|lane| {
            let home = &self.processes.get(&lane.pid?)?.home;
            (*home != Home::default()).then_some((&lane.label, home))
        })
    }

    /// Processes with a label of their own that live.
    pub(super) fn titled(&self) -> Vec<Titled> {
        let pids = self.all.iter().filter_map(|lane| lane.pid);
        let known = pids.filter_map(|pid| Some((pid, self.processes.get(&pid)?)));
        known
            .map(|(pid, known)| Titled {
                pid,
                start_time: known.start_time,
                title: Arc::clone(&known.title),
            })
            .collect()
    }

    /// Who a process is.
    pub(super) fn introduce(&mut self, process: &fact::Process) {
        self.rename(process.pid, process.start_time, &process.title);
        if let Some(known) = self.processes.get_mut(&process.pid) {
            known.home = Home {
                container: process.container.as_deref().map(Arc::from),
                pod_uid: process.pod_uid.as_deref().map(Arc::from),
            };
        }
    }

    /// A process's title, which may have changed.
    pub(super) fn rename(&mut self, pid: u32, start_time: u64, title: &str) {
        let title = label(title, TITLE);
        if let Some(known) = self.processes.get_mut(&pid) {
            known.start_time = start_time;
            if *known.title == *title {
                return;
            }
            known.title = title.into();
            self.leave(pid);
        } else {
            self.know(pid, start_time, title.into(), Home::default());
        }
    }

    /// A child has its parent's title and home, until it is known to have others.
    pub(super) fn fork(&mut self, parent: u32, child: u32) {
        self.end(child);
        let parent = self.processes.get(&parent);
        let (title, home) = parent.map_or_else(
            || (UNKNOWN.into(), Home::default()),
            |known| (Arc::clone(&known.title), known.home.clone()),
        );
        self.know(child, 0, title, home);
    }

    /// A process has ended.
    pub(super) fn end(&mut self, pid: u32) {
        self.leave(pid);
        self.processes.remove(&pid);
    }

    /// All have ended: tracing begins anew.
    pub(super) fn end_all(&mut self) {
        let pids: Vec<u32> = self.processes.keys().copied().collect();
        for pid in pids {
            self.end(pid);
        }
    }

    fn know(&mut self, pid: u32, start_time: u64, title: Arc<str>, home: Home) {
        if self.processes.len() < KEPT {
            let known = Known {
                title,
                start_time,
                home,
                lane: None,
            };
            self.processes.insert(pid, known);
        }
    }

    /// The process gives its label up.
    fn leave(&mut self, pid: u32) {
        self.last = (0, OTHERS);
        let Some(lane) = self
            .processes
            .get_mut(&pid)
            .and_then(|known| known.lane.take())
        else {
            return;
        };
        if lane != OTHERS {
            self.all[lane].pid = None;
            self.all[lane].dormant = Some(Instant::now());
        }
    }

    /// Finds a label for a process that makes its first call.
    fn assign(&mut self, pid: u32) -> usize {
        if !self.processes.contains_key(&pid) {
            self.know(pid, 0, UNKNOWN.into(), Home::default());
        }
        let Some(title) = self
            .processes
            .get(&pid)
            .map(|known| Arc::clone(&known.title))
        else {
            return OTHERS;
        };
        let lane = self.lane_for(&title);
        if lane == OTHERS {
            self.unlabelled += 1;
        } else {
            self.all[lane].pid = Some(pid);
            self.all[lane].dormant = None;
        }
        if let Some(known) = self.processes.get_mut(&pid) {
            known.lane = Some(lane);
        }
        lane
    }

    fn lane_for(&mut self, title: &Arc<str>) -> usize {
        let taken_over = self
            .all
            .iter()
            .position(|lane| lane.dormant.is_some() && lane.title == *title);
        if let Some(lane) = taken_over {
            return lane;
        }
        let is_free = |label: &str| self.all.iter().all(|lane| *lane.label != *label);
        let numbered = (2..).map(|number| format!("{title}#{number}"));
        let Some(label) = std::iter::once(title.to_string())
            .chain(numbered)
            .find(|label| is_free(label))
        else {
            return OTHERS;
        };
        let lane = Lane::new(label.into(), Arc::clone(title));
        if self.all.len() <= PROCESSES {
            self.all.push(lane);
            return self.all.len() - 1;
        }
        let longest = self
            .all
            .iter()
            .enumerate()
            .filter_map(|(index, lane)| Some((lane.dormant?, index)))
            .filter(|(since, _)| since.elapsed() >= DORMANT)
            .min();
        let Some((_, index)) = longest else {
            return OTHERS;
        };
        let ended = std::mem::replace(&mut self.all[index], lane);
        let series = ended.calls().count();
        self.budget.release(u32::try_from(series).unwrap_or(0));
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn introduce(lanes: &mut Lanes, pid: u32, title: &str) {
        lanes.rename(pid, u64::from(pid), title);
    }

    fn call(lanes: &mut Lanes, pid: u32) {
        lanes.call(pid, ApiId(0), &APIS[0], Ending::Success, 1);
    }

    fn counted(lanes: &Lanes, label: &str) -> Option<u64> {
        let lane = lanes.iter().find(|lane| &*lane.label == label)?;
        lane.calls().next().map(|(_, _, count)| count)
    }

    #[test]
    fn equal_titles_are_numbered() {
        let mut lanes = Lanes::new(Estimates::None);
        for pid in 1..=3 {
            introduce(&mut lanes, pid, "python3");
            call(&mut lanes, pid);
        }
        call(&mut lanes, 2);
        assert_eq!(counted(&lanes, "python3"), Some(1));
        assert_eq!(counted(&lanes, "python3#2"), Some(2));
        assert_eq!(counted(&lanes, "python3#3"), Some(1));
    }

    #[test]
    fn a_label_is_taken_over_and_its_counts_go_on() {
        let mut lanes = Lanes::new(Estimates::None);
        introduce(&mut lanes, 1, "worker");
        call(&mut lanes, 1);
        lanes.end(1);
        introduce(&mut lanes, 2, "worker");
        call(&mut lanes, 2);
        assert_eq!(counted(&lanes, "worker"), Some(2));
        assert_eq!(lanes.iter().count(), 2);
    }

    #[test]
    fn a_title_that_changes_changes_the_label() {
        let mut lanes = Lanes::new(Estimates::None);
        introduce(&mut lanes, 1, "python3");
        call(&mut lanes, 1);
        introduce(&mut lanes, 1, "VLLM::Worker_TP0");
        call(&mut lanes, 1);
        assert_eq!(counted(&lanes, "python3"), Some(1));
        assert_eq!(counted(&lanes, "VLLM::Worker_TP0"), Some(1));
        assert_eq!(&**lanes.label(1), "VLLM::Worker_TP0");
    }

    #[test]
    fn children_are_at_home_where_their_parent_is() {
        let mut lanes = Lanes::new(Estimates::None);
        introduce(&mut lanes, 1, "server");
        call(&mut lanes, 1);
        assert_eq!(lanes.homes().count(), 0);
        let home = Home {
            container: Some("0e4a8b1dc5f7".into()),
            pod_uid: Some("9cb1c0de-94a1-4a0e-8f3e-2f5b7d2f1a00".into()),
        };
        lanes.processes.get_mut(&1).expect("known").home = home.clone();
        lanes.fork(1, 2);
        call(&mut lanes, 2);
        let of = |lanes: &Lanes| -> Vec<(String, Home)> {
            let homes = lanes.homes();
            homes
                .map(|(label, home)| (label.to_string(), home.clone()))
                .collect()
        };
        let child = ("server#2".to_owned(), home.clone());
        assert_eq!(of(&lanes), [("server".to_owned(), home), child.clone()]);
        lanes.end(1);
        assert_eq!(of(&lanes), [child]);
    }

    #[test]
    fn a_process_that_calls_itself_other_is_told_from_the_others() {
        let mut lanes = Lanes::new(Estimates::None);
        introduce(&mut lanes, 1, "other");
        call(&mut lanes, 1);
        assert_eq!(counted(&lanes, "other#2"), Some(1));
        assert_eq!(counted(&lanes, "other"), None);
    }

    #[test]
    fn labels_run_out_and_calls_still_count() {
        let mut lanes = Lanes::new(Estimates::None);
        for pid in 1..=100 {
            introduce(&mut lanes, pid, &format!("title {pid}\n\"\\"));
            call(&mut lanes, pid);
        }
        assert_eq!(lanes.iter().count(), PROCESSES + 1);
        assert_eq!(lanes.unlabelled, 100 - PROCESSES as u64);
        assert_eq!(counted(&lanes, "other"), Some(lanes.unlabelled));
        assert!(lanes.iter().all(|lane| !lane.label.contains('\n')));
    }
}
