//! From events to what a page shows beyond a report.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use agent_common::ApiId;
use ledger::{Ledger, Process, ProcessKey, concerns_memory};
use trace::{Event, EventBatch, Fact, Kind, fact};

use super::curve::Curves;
use super::map;
use super::supplement::{Map, Mark, SCHEMA, Supplement, What};
use crate::input::{Cut, Ended};
use crate::report::is_allocation;
use crate::selection::{Selection, Time};
use crate::text::{bytes, counted};

/// Most marks of a page that are about the same: failures must not hide a loss.
const MARKS: u64 = 80;

/// Takes the rows of a recording, in order.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    selection: Selection,
    /// Where maps are wanted; `None`: at the end.
    at: Option<Time>,
    start: Option<u64>,
    end: Option<u64>,
    /// Where the selected part begins; `None`: it has not begun.
    from: Option<u64>,
    is_past: bool,
    ledger: Ledger,
    curves: Curves,
    callers: BTreeMap<u32, Option<String>>,
    /// Of processes that ended.
    maps: Vec<Map>,
    maps_left_out: u64,
    marks: Vec<Mark>,
    /// How many there would be.
    made: BTreeMap<What, u64>,
    lost: u64,
}

impl Collector {
    /// For the selected part, with maps of the moment `at`, or else of each process's end.
    pub(crate) fn new(selection: Selection, at: Option<Time>) -> Self {
        Self {
            selection,
            at,
            ..Self::default()
        }
    }

    /// Takes in the next rows.
    pub(crate) fn batch(&mut self, batch: &EventBatch) {
        for row in 0..batch.len() {
            self.start.get_or_insert(batch.ts()[row]);
            let api = batch.api().get(row).and_then(ApiId::api);
            if api.is_none_or(|api| concerns_memory(api.effect)) {
                self.push(&batch.event(row));
            } else if !self.is_past {
                let returned =
                    batch.ts()[row].saturating_add(batch.duration().get(row).unwrap_or(0));
                self.pass(returned);
            }
        }
    }

    fn push(&mut self, event: &Event) {
        let fact = (event.kind == Kind::Fact)
            .then(|| event.text.as_deref().and_then(Fact::parse))
            .flatten();
        if let Some(fact) = &fact
            && self.is_about_all(fact)
        {
            return;
        }
        let moment = match event.kind {
            Kind::Call | Kind::Begin => {
                Some(event.timestamp.saturating_add(event.duration.unwrap_or(0)))
            }
            Kind::Fact => is_moment(fact.as_ref()).then_some(event.timestamp),
            Kind::Abandoned | Kind::InFlight => None,
        };
        let now = moment.unwrap_or(event.timestamp);
        if moment.is_some() {
            self.pass(now);
        }
        if self.is_past {
            return;
        }
        if let Some(fact) = &fact {
            self.mark_fact(fact, event);
        }
        self.mark_failure(event, now);
        self.end_of_process(event, fact.as_ref());
        let checkpoints = self.ledger.checkpoints();
        self.ledger.apply(event);
        if self.from.is_none() {
            return;
        }
        if self.ledger.checkpoints() > checkpoints {
            self.curves.note_all(&self.ledger, now);
        } else if let Some(process) = self.ledger.process(event.pid)
            && moment.is_some()
        {
            self.curves.note(process, now);
        }
    }

    /// Facts that count whatever was selected; whether this is one.
    fn is_about_all(&mut self, fact: &Fact) -> bool {
        if let Fact::Account(account) = fact {
            let lost = account.lost_ring.saturating_add(account.lost_pairing);
            self.lost = self.lost.saturating_add(lost);
            return true;
        }
        if let Fact::RecursionMisses { count } = fact {
            self.lost = self.lost.saturating_add(*count);
            return true;
        }
        if let Fact::Caller(fact::Caller { id, module }) = fact {
            self.callers.insert(*id, module.clone());
        }
        false
    }

    /// A moment that is looked at, or the first after them.
    fn pass(&mut self, moment: u64) {
        let start = self.start.unwrap_or(moment);
        let from = self.selection.from.map(|from| from.after(start).max(start));
        if self.from.is_none() && !self.is_past && from.is_none_or(|from| moment >= from) {
            let from = from.unwrap_or(start);
            self.from = Some(from);
            // What is there since before does not begin with the next change of it.
            self.curves = Curves::starting(from, self.selection.clone());
            self.curves.note_all(&self.ledger, from);
        }
        let at = self.at.map(|at| at.after(start));
        let to = self.selection.to.map(|to| to.after(start));
        self.is_past |= at.is_some_and(|at| moment > at) || to.is_some_and(|to| moment >= to);
        let last = at.into_iter().chain(to).fold(moment, u64::min).max(start);
        self.end = self.end.max(Some(last));
    }

    fn mark_fact(&mut self, fact: &Fact, event: &Event) {
        let now = event.timestamp;
        if let Fact::Gap(gap) = fact {
            let from = now.saturating_sub(gap.duration.unwrap_or(0));
            let text = format!("process {}: {}", gap.pid, gap.reason);
            let until = gap.duration.map(|_| now);
            self.mark(What::Gap, from, until, Some(gap.pid), text);
        } else if let Fact::Unwritten(unwritten) = fact {
            let lost = counted(unwritten.events, "event");
            let text = format!("{lost} could not be written before this segment");
            self.mark(What::Lost, now, None, None, text);
        } else if *fact == Fact::Vanished {
            let text = format!("process {} vanished: its end was not seen", event.pid);
            self.mark(What::Gap, now, None, Some(event.pid), text);
        }
    }

    fn mark_failure(&mut self, event: &Event, now: u64) {
        let Some(api) = event.api.and_then(ApiId::api) else {
            return;
        };
        let Some(result) = event.result.filter(|result| *result != 0) else {
            return;
        };
        if event.kind == Kind::Call && is_allocation(api.effect) {
            let size = event.size.map(|size| bytes(size.cast_unsigned()));
            let of = size.map_or_else(String::new, |size| format!(" of {size}"));
            let text = format!(
                "process {}: {}{of} failed with {result}",
                event.pid, api.name
            );
            self.mark(What::Failed, now, None, Some(event.pid), text);
        }
    }

    fn mark(&mut self, what: What, at: u64, until: Option<u64>, pid: Option<u32>, text: String) {
        let is_selected = pid.is_none_or(|pid| self.selection.has_process(pid));
        let is_in_window = self.from.is_some_and(|from| until.unwrap_or(at) >= from);
        if !is_in_window || !is_selected {
            return;
        }
        let made = self.made.entry(what).or_default();
        *made += 1;
        if *made > MARKS {
            return;
        }
        self.marks.push(Mark {
            at_ns: at,
            until_ns: until,
            pid,
            what,
            text,
        });
    }

    fn end_of_process(&mut self, event: &Event, fact: Option<&Fact>) {
        if self.from.is_none() {
            return;
        }
        let Some(process) = self.ledger.about_to_end(event) else {
            return;
        };
        let how = match fact {
            Some(Fact::Exit) => "exit",
            Some(Fact::Exec) => "exec",
            Some(_) | None => "unseen",
        };
        let now = event.timestamp;
        let (key, had_memory) = (process.key(), !process.devices().is_empty());
        let ran_out = ran_out(process);
        let maps = match self.at {
            None => self.maps_of(process, now, Some(how)),
            Some(_) => Vec::new(),
        };
        self.curves.end(process, now);
        self.maps.extend(maps);
        self.maps_left_out += map::keep_largest(&mut self.maps);
        self.mark_out_of_memory(key, ran_out);
        if had_memory {
            let text = format!("process {} ended ({how})", key.pid);
            self.mark(What::Ended, now, None, Some(key.pid), text);
        }
    }

    fn maps_of(&self, process: &Process, now: u64, ended: Option<&'static str>) -> Vec<Map> {
        if !self.selection.has_process(process.key().pid) {
            return Vec::new();
        }
        let caller = |id| self.callers.get(&id).cloned().flatten();
        let pid = process.key().pid;
        let is_wanted = |device| self.selection.has_device(pid, device);
        map::of_process(process, now, ended, is_wanted, caller)
    }

    fn mark_out_of_memory(&mut self, key: ProcessKey, ran_out: Vec<(u64, u64)>) {
        for (at, asked) in ran_out {
            let text = format!(
                "process {}: PyTorch found no memory for {}",
                key.pid,
                bytes(asked)
            );
            self.mark(What::OutOfMemory, at, None, Some(key.pid), text);
        }
    }

    /// All that was taken in, of a recording that ended so.
    pub(crate) fn finish(mut self, ended: &Ended) -> Supplement {
        let start = self.start.unwrap_or(0);
        let end = self.end.unwrap_or(start);
        let at = self.at.map_or(end, |at| at.after(start));
        let ran_out: Vec<_> = self
            .ledger
            .live()
            .map(|process| (process.key(), ran_out(process)))
            .collect();
        for (key, ran_out) in ran_out {
            self.mark_out_of_memory(key, ran_out);
        }
        let mut maps = std::mem::take(&mut self.maps);
        for process in self.ledger.live() {
            maps.extend(self.maps_of(process, at, None));
            self.maps_left_out += map::keep_largest(&mut maps);
        }
        if self.lost > 0 {
            let lost = counted(self.lost, "call");
            let text = format!("{lost} lost, at moments that nobody knows");
            self.mark(What::Lost, start, self.end, None, text);
        }
        self.marks.sort_by_key(|mark| mark.at_ns);
        let (mut curves, curves_left_out) = self.curves.finish(&self.ledger, end);
        curves.sort_by_key(|curve| Reverse(curve.most()));
        let surplus = self.made.values().map(|made| made.saturating_sub(MARKS));
        Supplement {
            schema: SCHEMA,
            start_ns: self.start,
            end_ns: self.end,
            live: ended.is_live,
            cuts: ended.cut.iter().map(in_words).collect(),
            notes: ended.notes.clone(),
            curves,
            curves_left_out,
            maps,
            maps_left_out: self.maps_left_out,
            marks: self.marks,
            marks_left_out: surplus.sum(),
            gaps: self.made.get(&What::Gap).copied().unwrap_or(0),
            hist: None,
            threads: None,
        }
    }
}

fn in_words(Cut { input, end }: &Cut) -> String {
    format!("{input} is {end}; what came after is missing")
}

/// When PyTorch ran out of memory, and what it asked for.
fn ran_out(process: &Process) -> Vec<(u64, u64)> {
    let allocators = process.allocators().values();
    let all = allocators.flat_map(ledger::CachingAllocator::out_of_memory);
    all.map(|ran_out| (ran_out.at.timestamp, ran_out.asked))
        .collect()
}

/// Whether a fact tells of a moment at which memory changed; others define something.
fn is_moment(fact: Option<&Fact>) -> bool {
    matches!(
        fact,
        Some(Fact::Exit | Fact::Exec | Fact::Vanished | Fact::Gap(_) | Fact::Unwritten(_))
    )
}
