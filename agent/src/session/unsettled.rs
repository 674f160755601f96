//! Names that were read in a process, held back until it is sure that they were the launched kernels'.
//!
//! A handle is looked at some milliseconds after its launch was. Where its module has been unloaded in
//! between, the same address may be another kernel's by then. The record of that unloading comes after
//! the launch's and lies in the ring when the handle is looked at, or follows when the call returns.

use std::mem;

use super::names::{Answer, AnswerKind};

/// How long a name is held back, ns: longer than unloading a module takes, and than records lie in
/// the ring.
const HELD: u64 = 1_000_000_000;
/// Most names that are held back.
const MAX_HELD: usize = 4096;

/// Names that are held back.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    names: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    pid: u32,
    /// The kernel's.
    id: u32,
    handle: u64,
    /// ns of `CLOCK_MONOTONIC`.
    read_at: u64,
    is_doubtful: bool,
    answer: Option<Answer>,
}

impl Unsettled {
    /// Whether one more can be held back.
    pub(super) fn has_room(&self) -> bool {
        self.names.len() < MAX_HELD
    }

    /// The answer about this kernel is to be held back.
    pub(super) fn expect(&mut self, pid: u32, id: u32, handle: u64, read_at: u64) {
        self.names.push(Held {
            pid,
            id,
            handle,
            read_at,
            is_doubtful: false,
            answer: None,
        });
    }

    /// Keeps an answer that is to be held back; hands back any other.
    pub(super) fn hold(&mut self, answer: Answer) -> Option<Answer> {
        let AnswerKind::Handle(kernel) = &answer.kind else {
            return Some(answer);
        };
        let held = self.names.iter_mut().find(|held| held.id == kernel.id);
        match held {
            Some(held) => {
                held.answer = Some(answer);
                None
            }
            None => Some(answer),
        }
    }

    /// Device code of the process is gone since `timestamp`: what was read later may be another
    /// kernel's name. The handles of which that was not known yet.
    pub(super) fn doubt(&mut self, pid: u32, timestamp: u64) -> Vec<u64> {
        let doubtful = self
            .names
            .iter_mut()
            .filter(|held| held.pid == pid && held.read_at >= timestamp && !held.is_doubtful);
        doubtful
            .map(|held| {
                held.is_doubtful = true;
                held.handle
            })
            .collect()
    }

    /// Answers that need not be held back any longer: records from before `heard`, ns of
    /// `CLOCK_MONOTONIC`, have been taken in.
    pub(super) fn settled(&mut self, heard: u64) -> Vec<Answer> {
        let since = heard.saturating_sub(HELD);
        let is_over = |held: &Held| held.is_doubtful || held.read_at < since;
        if self.names.iter().any(is_over) {
            self.release(is_over)
        } else {
            Vec::new()
        }
    }

    /// Those of a process that has ended. What has no answer yet is held back no more, but where it
    /// is doubtful.
    pub(super) fn of_process(&mut self, pid: u32) -> Vec<Answer> {
        let answers = self.release(|held| held.pid == pid);
        self.names
            .retain(|held| held.pid != pid || held.is_doubtful);
        answers
    }

    /// All answers.
    pub(super) fn all(mut self) -> Vec<Answer> {
        self.release(|_| true)
    }

    fn release(&mut self, is_over: impl Fn(&Held) -> bool) -> Vec<Answer> {
        let mut answers = Vec::new();
        for mut held in mem::take(&mut self.names) {
            if !is_over(&held) {
                self.names.push(held);
                continue;
            }
            let Some(mut answer) = held.answer.take() else {
                self.names.push(held);
                continue;
            };
            if let AnswerKind::Handle(kernel) = &mut answer.kind
                && held.is_doubtful
            {
                kernel.name = None;
            }
            answers.push(answer);
        }
        answers
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
            unsettled.expect(7, id, u64::from(id), read_at);
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
        unsettled.expect(8, 2, 2, now);
        assert_eq!(names(unsettled.of_process(7)).len(), 2);
        assert!(unsettled.hold(answer(8, 2)).is_none());
    }

    #[test]
    fn a_doubtful_name_is_not_told_though_its_answer_comes_after_the_end() {
        let mut unsettled = Unsettled::default();
        unsettled.expect(7, 3, 3, 10);
        assert_eq!(unsettled.doubt(7, 5), [3]);
        assert_eq!(names(unsettled.of_process(7)), Vec::<Option<String>>::new());
        assert!(unsettled.hold(answer(7, 3)).is_none());
        assert_eq!(names(unsettled.settled(0)), [None]);
    }

    #[test]
    fn an_answer_that_comes_late_is_waited_for() {
        let mut unsettled = Unsettled::default();
        unsettled.expect(7, 3, 3, 0);
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
}
