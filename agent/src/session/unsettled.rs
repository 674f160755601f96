//! Names that were read in a process, held back until it is sure that they were the launched kernels'.
//!
//! A handle is looked at some milliseconds after its launch was. Where its module has been unloaded in
//! between, the same address may be another kernel's by then. The record of that unloading comes after
//! the launch's and lies in the ring when the handle is looked at, or follows when the call returns.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::names::{Answer, AnswerKind};

/// How long a name is held back, ns: longer than unloading a module takes, and than records lie in
/// the ring.
const HELD: u64 = 1_000_000_000;
/// Most names that are held back.
const MAX_HELD: usize = 1 << 16;

/// Names that are held back.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    /// By kernel id.
    names: FxHashMap<u32, Held>,
    /// When names were read, and those kernels' ids, in about that order.
    ages: VecDeque<(u64, u32)>,
    /// Kernels whose answers need not be held back any longer.
    over: Vec<u32>,
}

#[derive(Debug)]
struct Held {
    pid: u32,
    handle: u64,
    /// ns of `CLOCK_MONOTONIC`; `None` while that is to come.
    read_at: Option<u64>,
    is_doubtful: bool,
    /// It is doubtful, or old enough: the answer is wanted at once.
    is_over: bool,
    answer: Option<Answer>,
}

impl Unsettled {
    /// Whether one more can be held back.
    pub(super) fn has_room(&self) -> bool {
        self.names.len() < MAX_HELD
    }

    /// The answer about this kernel is to be held back. `read_at`: when its name was read; `None` where
    /// that is to come.
    pub(super) fn expect(&mut self, pid: u32, id: u32, handle: u64, read_at: Option<u64>) {
        let held = Held {
            pid,
            handle,
            read_at,
            is_doubtful: false,
            is_over: false,
            answer: None,
        };
        self.names.insert(id, held);
        self.ages.extend(read_at.map(|read_at| (read_at, id)));
    }

    /// The name has been read. Whether it is doubtful by now.
    pub(super) fn read(&mut self, id: u32, read_at: u64) -> bool {
        let Some(held) = self.names.get_mut(&id) else {
            // Its process has ended.
            return false;
        };
        held.read_at = Some(read_at);
        self.ages.push_back((read_at, id));
        held.is_doubtful
    }

    /// There was no name to read.
    pub(super) fn nameless(&mut self, id: u32) {
        self.names.remove(&id);
    }

    /// Keeps an answer that is to be held back; hands back any other.
    pub(super) fn hold(&mut self, answer: Answer) -> Option<Answer> {
        let AnswerKind::Handle(kernel) = &answer.kind else {
            return Some(answer);
        };
        let id = kernel.id;
        let Some(held) = self.names.get_mut(&id) else {
            return Some(answer);
        };
        held.answer = Some(answer);
        if held.is_over {
            self.over.push(id);
        }
        None
    }

    /// Device code of the process is gone since `timestamp`: what was read later may be another
    /// kernel's name. The handles of which that was not known yet.
    pub(super) fn doubt(&mut self, pid: u32, timestamp: u64) -> Vec<u64> {
        let mut handles = Vec::new();
        for (id, held) in &mut self.names {
            let was_read_later = held.read_at.is_none_or(|read_at| read_at >= timestamp);
            if held.pid == pid && was_read_later && !held.is_doubtful {
                held.is_doubtful = true;
                held.is_over = true;
                handles.push(held.handle);
                self.over.extend(held.answer.is_some().then_some(*id));
            }
        }
        handles
    }

    /// Answers that need not be held back any longer: records from before `heard`, ns of
    /// `CLOCK_MONOTONIC`, have been taken in.
    pub(super) fn settled(&mut self, heard: u64) -> Vec<Answer> {
        let since = heard.saturating_sub(HELD);
        while let Some((read_at, id)) = self.ages.front().copied()
            && read_at < since
        {
            self.ages.pop_front();
            if let Some(held) = self.names.get_mut(&id) {
                held.is_over = true;
                self.over.extend(held.answer.is_some().then_some(id));
            }
        }
        let over = std::mem::take(&mut self.over);
        over.into_iter()
            .filter_map(|id| self.names.remove(&id)?.told())
            .collect()
    }

    /// Those of a process that has ended. What has no answer yet is held back no more, but where it
    /// is doubtful.
    pub(super) fn of_process(&mut self, pid: u32) -> Vec<Answer> {
        let is_its = |_: &u32, held: &mut Held| held.pid == pid;
        let mut answers = Vec::new();
        for (id, held) in self.names.extract_if(is_its).collect::<Vec<_>>() {
            if held.answer.is_none() && held.is_doubtful {
                self.names.insert(id, held);
            } else {
                answers.extend(held.told());
            }
        }
        answers.sort_unstable_by_key(Answer::id);
        answers
    }

    /// All answers.
    pub(super) fn all(self) -> Vec<Answer> {
        let mut answers: Vec<Answer> = self.names.into_values().filter_map(Held::told).collect();
        answers.sort_unstable_by_key(Answer::id);
        answers
    }
}

impl Held {
    /// The answer, as far as it is sure.
    fn told(self) -> Option<Answer> {
        let mut answer = self.answer?;
        if let AnswerKind::Handle(kernel) = &mut answer.kind
            && self.is_doubtful
        {
            kernel.name = None;
        }
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use trace::fact;

    use super::{super::clock, *};

    fn answer(pid: u32, id: u32) -> Answer {
        Answer {
            pid,
            timestamp: 0,
            kind: AnswerKind::Handle(fact::Kernel {
                id,
                name: Some(format!("kernel {id}")),
                module: None,
                handle: u64::from(id),
            }),
        }
    }

    fn names(answers: Vec<Answer>) -> Vec<Option<String>> {
        let name = |answer| match answer {
            Answer {
                kind: AnswerKind::Handle(kernel),
                ..
            } => kernel.name,
            other => panic!("{other:?}"),
        };
        answers.into_iter().map(name).collect()
    }

    /// Read at these times; all answered.
    fn held(read_at: [u64; 2]) -> Unsettled {
        let mut unsettled = Unsettled::default();
        for (id, read_at) in (0..).zip(read_at) {
            unsettled.expect(7, id, u64::from(id), Some(read_at));
            assert!(unsettled.hold(answer(7, id)).is_none());
        }
        unsettled
    }

    #[test]
    fn what_nobody_waits_for_is_handed_on() {
        let mut unsettled = held([0, 0]);
        assert!(unsettled.hold(answer(7, 2)).is_some());
    }

    #[test]
    fn names_are_held_back_until_they_are_old() {
        let mut unsettled = held([0, clock::monotonic()]);
        let name = |id: u32| Some(format!("kernel {id}"));
        assert_eq!(names(unsettled.settled(clock::monotonic())), [name(0)]);
        assert_eq!(
            names(unsettled.settled(clock::monotonic())),
            Vec::<Option<String>>::new()
        );
        assert_eq!(names(unsettled.all()), [name(1)]);
    }

    #[test]
    fn a_name_that_was_read_after_an_unloading_began_is_not_told() {
        let now = clock::monotonic();
        let mut unsettled = held([now, now + 2]);
        assert_eq!(unsettled.doubt(8, now), [0; 0]);
        assert_eq!(unsettled.doubt(7, now + 1), [1]);
        assert_eq!(unsettled.doubt(7, now + 1), [0; 0]);
        assert_eq!(names(unsettled.settled(clock::monotonic())), [None]);
        assert_eq!(names(unsettled.all()), [Some("kernel 0".to_owned())]);
    }

    #[test]
    fn records_that_are_not_taken_in_yet_may_make_names_doubtful() {
        let now = clock::monotonic();
        let mut unsettled = held([now, now]);
        assert_eq!(names(unsettled.settled(now)), Vec::<Option<String>>::new());
        assert_eq!(names(unsettled.settled(now + HELD + 1)).len(), 2);
    }

    #[test]
    fn what_is_held_back_of_a_process_is_told_at_its_end() {
        let now = clock::monotonic();
        let mut unsettled = held([now, now]);
        unsettled.expect(8, 2, 2, Some(now));
        assert_eq!(names(unsettled.of_process(7)).len(), 2);
        assert!(unsettled.hold(answer(8, 2)).is_none());
    }

    #[test]
    fn a_doubtful_name_is_not_told_though_its_answer_comes_after_the_end() {
        let mut unsettled = Unsettled::default();
        unsettled.expect(7, 3, 3, Some(10));
        assert_eq!(unsettled.doubt(7, 5), [3]);
        assert_eq!(names(unsettled.of_process(7)), Vec::<Option<String>>::new());
        assert!(unsettled.hold(answer(7, 3)).is_none());
        assert_eq!(names(unsettled.settled(0)), [None]);
    }

    #[test]
    fn an_answer_that_comes_late_is_waited_for() {
        let mut unsettled = Unsettled::default();
        unsettled.expect(7, 3, 3, Some(0));
        assert_eq!(
            names(unsettled.settled(clock::monotonic())),
            Vec::<Option<String>>::new()
        );
        assert!(unsettled.hold(answer(7, 3)).is_none());
        assert_eq!(
            names(unsettled.settled(clock::monotonic())),
            [Some("kernel 3".to_owned())]
        );
    }
    #[test]
    fn a_name_that_is_read_late_is_doubtful_if_something_was_unloaded_meanwhile() {
        let now = clock::monotonic();
        let mut unsettled = Unsettled::default();
        for id in 1..=4 {
            unsettled.expect(7, id, u64::from(id), None);
        }
        assert!(!unsettled.read(1, now));
        unsettled.nameless(2);
        let mut doubtful = unsettled.doubt(7, now + 1);
        doubtful.sort_unstable();
        assert_eq!(doubtful, [3, 4]);
        assert!(unsettled.read(3, now + 2));
        for id in [1, 3] {
            assert!(unsettled.hold(answer(7, id)).is_none());
        }
        assert!(unsettled.hold(answer(7, 2)).is_some());
        assert_eq!(names(unsettled.settled(now)), [None]);
        let later = now + HELD + 1;
        assert_eq!(
            names(unsettled.settled(later)),
            [Some("kernel 1".to_owned())]
        );
        // The process ends, and the last one is read after all.
        assert_eq!(names(unsettled.of_process(7)), Vec::<Option<String>>::new());
        assert!(unsettled.read(4, later));
        assert!(unsettled.hold(answer(7, 4)).is_none());
        assert_eq!(names(unsettled.all()), [None]);
    }
}
