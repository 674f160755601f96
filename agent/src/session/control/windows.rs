//! The overhead budget at work: probes of launches, copies and waits come and go in windows.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use agent_common::{ApiId, ProbeClass};

use super::{
    AttachFailure, Controller,
    budget::{Cut, loss_of},
    clock,
};
use crate::{
    attach::{Links, Placed, Scope},
    budget::Move,
    discover::{FileIdentity, Found, Process},
};

impl Controller {
    /// How long control may wait for what it is asked.
    pub(super) fn budget_wait(&self) -> Option<Duration> {
        let budget = self.budget.as_ref()?;
        Some(budget.due().saturating_duration_since(Instant::now()))
    }

    /// Looks at what was spent, if it is time to.
    pub(super) fn look_at_budget(&mut self) {
        let is_off = self.switch.is_off();
        let Some(budget) = &mut self.budget else {
            return;
        };
        if budget.due() > Instant::now() {
            return;
        }
        budget.charge();
        match budget.policy.decide().filter(|_| !is_off) {
            Some(Move::Open) => self.open_window(),
            Some(Move::Close) => self.close_window(),
            Some(Move::Tell) => self.tell_window(),
            Some(Move::Sample(class)) => self.sample(class),
            Some(Move::LeaveCaptures) => self.leave_captures(),
            None => {}
        }
        if let Some(budget) = &mut self.budget {
            budget.looked = Instant::now();
            self.status.set_budget(budget.standing());
            if budget.policy.steady_breaks() && !budget.warned {
                budget.warned = true;
                tracing::warn!(
                    "what is always traced (devices, graphs, memory) costs more than \
                     --max-overhead {}% by itself: nothing is left for launches, copies and waits",
                    budget.share.ratio() * 100.0
                );
            }
        }
    }

    fn open_window(&mut self) {
        let Some(budget) = &self.budget else { return };
        let (classes, uses) = (budget.sampled(), budget.uses.clone());
        let switched = self.attach_classes(&classes, |api| uses.looks_at(api));
        if let Some(budget) = &mut self.budget {
            budget.switched = switched;
            budget.charge();
            let mut windows = budget.windows;
            for class in classes {
                windows = windows.with(class, true);
            }
            budget.set(windows);
            budget.opened = clock::monotonic();
            budget.policy.opened(budget.opened);
        }
        self.tell_attached();
    }

    /// Closes the window if it is open.
    pub(super) fn close_window(&mut self) {
        let Some(budget) = self
            .budget
            .as_mut()
            .filter(|budget| budget.policy.is_open())
        else {
            return;
        };
        let classes = budget.sampled();
        let mut windows = budget.windows;
        for class in &classes {
            windows = windows.with(*class, false);
        }
        budget.set(windows);
        let until = clock::monotonic();
        budget.charge();
        budget.policy.closed(until);
        budget.policy.switched(budget.switched);
        budget.note_uses();
        let fact = budget.told(until);
        self.fact(0, 0, &fact);
        self.take_off(&classes);
    }

    /// Links of these classes, off.
    fn take_off(&mut self, classes: &[ProbeClass]) {
        self.detach_classes(classes);
        if let Some(budget) = &mut self.budget {
            budget.set(budget.windows.next_epoch());
            budget.cut = Some(clock::monotonic());
        }
        self.tell_attached();
    }

    fn detach_classes(&mut self, classes: &[ProbeClass]) {
        let own = self.processes.values_mut();
        let own = own.flat_map(|process| process.links.values_mut());
        let shared = self.shared.values_mut().map(|(_, links)| links);
        let links = own.chain(shared);
        let links = links.flat_map(|links| classes.iter().map(|class| links.take(*class)));
        Links::detach_all(links.collect());
    }

    /// A process captures a stream: from now on it is followed how that spreads.
    pub(super) fn capture_began(&mut self) {
        let Some(budget) = &mut self.budget else {
            return;
        };
        let was_followed = budget.policy.follows_captures();
        budget.policy.capturing();
        if was_followed {
            return;
        }
        self.attach_classes(&[ProbeClass::Capture], |_| true);
        if let Some(budget) = &mut self.budget {
            budget.set(budget.windows.with(ProbeClass::Capture, true));
        }
        self.tell_attached();
    }

    /// Nothing has been captured for a while: events that are put into streams, which some programs
    /// do at each step, go without probes. Those have no call pending, as they note none outside
    /// of captures.
    fn leave_captures(&mut self) {
        let Some(budget) = &mut self.budget else {
            return;
        };
        budget.set(budget.windows.with(ProbeClass::Capture, false));
        // Asked after that: whoever begins one from now on has seen that nobody looks.
        if budget.state.is_capturing() {
            budget.set(budget.windows.with(ProbeClass::Capture, true));
            budget.policy.capturing();
            return;
        }
        budget.policy.captures_left();
        self.detach_classes(&[ProbeClass::Capture]);
        self.tell_attached();
    }

    fn tell_window(&mut self) {
        if let Some(budget) = &mut self.budget
            && !budget.uses.is_wide()
        {
            // It stays open: what is not in use may be from now on.
            let (classes, uses) = (budget.sampled(), budget.uses.clone());
            budget.uses.widen();
            let switched = self.attach_classes(&classes, |api| !uses.looks_at(api));
            if let Some(budget) = &mut self.budget {
                budget.switched += switched;
            }
            self.tell_attached();
        }
        if let Some(budget) = &mut self.budget {
            let now = clock::monotonic();
            budget.policy.told(now);
            let fact = budget.told(now);
            self.fact(0, 0, &fact);
        }
    }

    /// From now on a class comes in windows that was always on: what it kept the books of is not
    /// known any more.
    fn sample(&mut self, class: ProbeClass) {
        let Some(budget) = &mut self.budget else {
            return;
        };
        let percent = budget.share.ratio() * 100.0;
        match class {
            ProbeClass::Torch => tracing::warn!(
                "PyTorch's reports alone cost more than --max-overhead {percent}%: from now on they \
                 are sampled, and its blocks are not known"
            ),
            ProbeClass::Memory => tracing::warn!(
                "memory calls alone cost more than --max-overhead {percent}%: from now on they are \
                 sampled, and who holds memory is not known. With --max-overhead off it is"
            ),
            ProbeClass::Steady | ProbeClass::Hot | ProbeClass::Capture => {}
        }
        budget.policy.sample(class);
        budget.uses.widen_next(budget.policy.is_open());
        budget.set(budget.windows.sampling(class));
        // Its calls have been counted until now: the next window does not stand for them.
        budget.known_until = clock::monotonic();
        if let Some(fact) = loss_of(class) {
            for pid in self.processes.keys() {
                self.fact(*pid, *pid, &fact);
            }
        }
        self.take_off(&[class]);
    }

    /// Tells of a process what is not known of it, since its calls come in windows.
    pub(super) fn tell_of_samples(&self, pid: u32) {
        let sampled = self
            .budget
            .iter()
            .flat_map(|budget| budget.policy.samples());
        for fact in sampled.filter_map(loss_of) {
            self.fact(pid, pid, &fact);
        }
    }

    /// Probes were off, and are on again: nothing is known of the time between.
    pub(super) fn forget_time_off(&mut self) {
        if let Some(budget) = &mut self.budget {
            budget.known_until = clock::monotonic();
        }
    }

    /// Since when calls cannot be seen to return that are sampled, and what is.
    pub(super) fn cut(&self) -> Option<Cut> {
        let budget = self.budget.as_ref()?;
        Some(Cut {
            at: budget.cut?,
            windows: budget.windows,
        })
    }

    /// The libraries that have probes, each with a process; one is enough for links on all.
    fn probed(&self) -> Vec<(u32, Found)> {
        let own = self.processes.iter().flat_map(|(pid, process)| {
            let found = process.found.iter();
            found.filter_map(|found| {
                let has_links = process.links.contains_key(&found.library.identity());
                has_links.then(|| (*pid, found.clone()))
            })
        });
        let user = |identity: &FileIdentity| {
            self.processes.iter().find_map(|(pid, process)| {
                let mut found = process.found.iter();
                let uses = process.scope == Scope::All
                    && found.any(|found| found.library.identity() == *identity);
                uses.then_some(*pid)
            })
        };
        let shared = self
            .shared
            .iter()
            .filter_map(|(identity, (found, _))| Some((user(identity)?, found.clone())));
        own.chain(shared).collect()
    }

    /// Attaches what belongs on a library now, of points that have their sites.
    pub(super) fn attach_points(
        &mut self,
        found: &Found,
        placed: &[Placed],
        scope: Scope,
    ) -> Result<Links, AttachFailure> {
        let path = found.library.file.attach_path();
        let Some(budget) = &mut self.budget else {
            let all = ProbeClass::Steady;
            return Ok(Links::attach(
                &mut self.programs,
                placed,
                &path,
                scope,
                all,
            )?);
        };
        budget.uses.widen_next(budget.policy.is_open());
        let (sampled, uses) = (budget.sampled(), budget.uses.clone());
        let on = ProbeClass::ALL.map(|class| budget.is_on(class).then_some(class));
        let mut links = Links::default();
        for class in on.into_iter().flatten() {
            // As everywhere in the window that is open.
            let is_steady = !sampled.contains(&class);
            let points = points_of(placed, class, |api| is_steady || uses.looks_at(api));
            links.merge(Links::attach(
                &mut self.programs,
                &points,
                &path,
                scope,
                class,
            )?);
        }
        Ok(links)
    }

    /// Attaches those functions of these classes that are `wanted`, wherever probes are. How many
    /// they are on the process that has most.
    fn attach_classes(&mut self, classes: &[ProbeClass], wanted: impl Fn(ApiId) -> bool) -> usize {
        let mut attached: HashMap<u32, usize> = HashMap::new();
        for (pid, found) in self.probed() {
            for class in classes {
                match self.attach_class(pid, &found, *class, &wanted) {
                    Ok(points) => *attached.entry(pid).or_default() += points,
                    Err(error) => tell(pid, &error),
                }
            }
        }
        attached.into_values().max().unwrap_or(0)
    }

    /// Attaches a class to a library that has its links; how many functions.
    fn attach_class(
        &mut self,
        pid: u32,
        found: &Found,
        class: ProbeClass,
        wanted: impl Fn(ApiId) -> bool,
    ) -> Result<usize, AttachFailure> {
        let identity = found.library.identity();
        let scope = self.scope(pid);
        let entry_only = self.is_entry_only(pid, scope);
        let Some(placed) = self.placed.get(&(identity, entry_only)) else {
            return Ok(0);
        };
        let points = points_of(placed, class, wanted);
        let path = found.library.file.attach_path();
        let links = Links::attach(&mut self.programs, &points, &path, scope, class)?;
        let known = match scope {
            Scope::All => self.shared.get_mut(&identity).map(|(_, links)| links),
            Scope::Process(_) => self
                .processes
                .get_mut(&pid)
                .and_then(|process| process.links.get_mut(&identity)),
        };
        if let Some(known) = known {
            known.merge(links);
        }
        Ok(points.len())
    }

    /// Says which probes are on.
    pub(super) fn tell_attached(&self) {
        let mut files: HashMap<FileIdentity, (String, usize)> = HashMap::new();
        for process in self.processes.values() {
            for found in &process.found {
                let identity = found.library.identity();
                let shared = self.shared.get(&identity).map(|(_, links)| links);
                let links = process.links.get(&identity).or(shared);
                let name = found.path.file_name().unwrap_or_default();
                let (_, most) = files
                    .entry(identity)
                    .or_insert_with(|| (name.to_string_lossy().into_owned(), 0));
                *most = links.map_or(0, Links::functions).max(*most);
            }
        }
        let idle = self.processes.values().filter(|process| process.is_idle);
        self.status
            .set_attached(files.into_values().collect(), idle.count());
    }
}

fn points_of(placed: &[Placed], class: ProbeClass, wanted: impl Fn(ApiId) -> bool) -> Vec<Placed> {
    let is_meant = |point: &&Placed| point.class == class && wanted(point.api);
    placed.iter().filter(is_meant).copied().collect()
}

fn tell(pid: u32, error: &AttachFailure) {
    // It may have ended meanwhile.
    if Process::has_ended(pid) {
        tracing::debug!("process {pid}: {error}");
    } else {
        tracing::warn!("process {pid}: {error}");
    }
}
