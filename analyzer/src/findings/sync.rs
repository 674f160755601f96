//! Does the host wait for the device more often than it needs to?

use std::collections::BTreeMap;

use super::{Confidence, Evidence, Family, Figures, Finding, Severity};
use crate::host::{ThreadPace, WaitSum, Waiting};
use crate::report::Report;
use crate::text::{count, duration, percent};

/// Fewer waits of a kind are no habit.
const FEWEST: u64 = 500;

/// Nor are those that come more rarely than so many a second.
const FEWEST_A_SECOND: u64 = 50;

/// Nor those that take a smaller share of the thread's time.
const LEAST_PERCENT: u64 = 2;

/// With more launches before each, a wait costs little beside the work.
const LAUNCHES_BEFORE_SCALAR: u64 = 16;

/// From this share of a thread's time on, waiting is what it does.
const MOSTLY_PERCENT: u64 = 50;

/// Most callers that are named.
const CALLERS: usize = 3;

pub(super) fn find(figures: Figures<'_>) -> Vec<Finding> {
    let report = figures.report;
    let threads = report.host.threads.iter();
    threads
        .flat_map(|thread| {
            let Some((pid, tid)) = thread.pid.zip(thread.tid) else {
                return [None, None, None];
            };
            let about = About {
                report,
                thread,
                pid,
                tid,
            };
            [about.each_launch(), about.scalars(), about.busy()]
        })
        .flatten()
        .collect()
}

struct About<'a> {
    report: &'a Report,
    thread: &'a ThreadPace,
    pid: u32,
    tid: u32,
}

impl About<'_> {
    /// A wait after each launch or two.
    fn each_launch(&self) -> Option<Finding> {
        let (pid, tid, sum) = (self.pid, self.tid, self.thread.waits.after_few);
        let all = self.thread.waits.all();
        if !self.is_habit(sum) || sum.waits.saturating_mul(2) < all.waits {
            return None;
        }
        let claim = format!(
            "Thread {tid} of process {pid} waits for the device after every launch or two: {} \
             times, {} in all.",
            count(sum.waits),
            duration(sum.total_ns)
        );
        Some(self.finding(
            "each_launch",
            Severity::Warning,
            claim,
            sum,
            "Wait where a result is needed, not after each step: take out torch.cuda.synchronize() (and \
             CUDA_LAUNCH_BLOCKING=1, which does the same inside); order streams with events \
             (Stream.wait_event) instead of the host.",
        ))
    }

    /// Numbers that are fetched from the device one by one.
    fn scalars(&self) -> Option<Finding> {
        let (pid, tid, waits) = (self.pid, self.tid, self.thread.waits);
        let sum = waits.after_scalar;
        let launches = waits.launches_before_scalars / sum.waits.max(1);
        if !self.is_habit(sum) || launches > LAUNCHES_BEFORE_SCALAR {
            return None;
        }
        let claim = format!(
            "Thread {tid} of process {pid} fetches single numbers from the device: {} copies of at most 16 \
             bytes, each with a wait, {} in all.",
            count(sum.waits),
            duration(sum.total_ns)
        );
        let mut finding = self.finding(
            "scalars",
            Severity::Warning,
            claim,
            sum,
            "Look for .item(), .tolist(), float(tensor), `if tensor:` and the like in the loop, and \
             keep the numbers on the device (torch.where, masks), or fetch many at once, every \
             some steps, with one copy into pinned memory.",
        );
        let before = waits.launches_before_scalars.into();
        finding.numbers.insert("launches_before", before);
        finding.evidence[0].what = format!(
            "about {launches} launches before each; {}",
            finding.evidence[0].what
        );
        Some(finding)
    }

    /// Waits that block: the device is busy.
    fn busy(&self) -> Option<Finding> {
        let (pid, tid, sum) = (self.pid, self.tid, self.thread.waits.all());
        let share = percent(sum.total_ns, self.thread.span_ns());
        let blocked = sum.waits.saturating_sub(sum.at_once);
        if sum.total_ns < 1_000_000_000 || share < MOSTLY_PERCENT || blocked * 2 < sum.waits {
            return None;
        }
        let claim = format!(
            "Thread {tid} of process {pid} spends {share} % of its time waiting for the device."
        );
        let mut finding = self.finding(
            "busy_device",
            Severity::Info,
            claim,
            sum,
            "Nothing is wrong on the host's side. To make it faster, make the kernels faster, or \
             use the time for the next batch (prefetch, a second stream).",
        );
        finding
            .unknowns
            .push("Whether the device computes or copies in that time.".to_owned());
        Some(finding)
    }

    fn is_habit(&self, sum: WaitSum) -> bool {
        let span = self.thread.span_ns().max(1);
        let a_second = u128::from(sum.waits) * 1_000_000_000 / u128::from(span);
        sum.waits >= FEWEST
            && a_second >= u128::from(FEWEST_A_SECOND)
            && percent(sum.total_ns, span) >= LEAST_PERCENT
    }

    fn finding(
        &self,
        kind: &str,
        severity: Severity,
        claim: String,
        sum: WaitSum,
        next_step: &str,
    ) -> Finding {
        let Self {
            report,
            thread,
            pid,
            tid,
        } = *self;
        let is_lossy = report.recording.lost.any() == Some(true);
        let seen = Evidence {
            pid: Some(pid),
            from_ns: Some(thread.from_ns),
            to_ns: Some(thread.to_ns),
            ..Evidence::new(format!(
                "{} of {} returned at once (the queue was drained), {} blocked (the device was busy)",
                count(sum.at_once),
                count(sum.waits),
                count(sum.waits.saturating_sub(sum.at_once))
            ))
        };
        let ours = |wait: &&Waiting| wait.pid == Some(pid) && wait.tid == Some(tid);
        let callers = report.host.waits.iter().filter(ours).take(CALLERS);
        let callers = callers.map(|wait| Evidence {
            pid: Some(pid),
            api: wait.api.map(str::to_owned),
            caller: wait.caller.clone(),
            ..Evidence::new(format!("{} waits of the thread", count(wait.waits)))
        });
        Finding {
            id: format!("sync.{kind}:{pid}:{tid}"),
            family: Family::Sync,
            severity,
            claim,
            numbers: BTreeMap::from([
                ("waits", sum.waits.into()),
                ("waits_at_once", sum.at_once.into()),
                ("waiting_ns", sum.total_ns.into()),
                ("span_ns", thread.span_ns().into()),
                ("launches", thread.launches.launches.into()),
            ]),
            confidence: if is_lossy {
                Confidence::Low
            } else {
                Confidence::High
            },
            evidence: [seen].into_iter().chain(callers).collect(),
            unknowns: vec![
                "How long the device would have been busy without the waits: what launching ahead \
                 saves shows only when it is tried."
                    .to_owned(),
            ],
            next_step: next_step.to_owned(),
        }
    }
}
