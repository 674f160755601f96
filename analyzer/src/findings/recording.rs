//! What makes everything else doubtful: the recording misses something.

use std::collections::BTreeMap;

use agent_common::ApiId;

use super::{Confidence, Evidence, Family, Figures, Finding, Severity};
use crate::report::{OpenCall, Report};
use crate::text::{bytes, count, counted, duration};

/// A call that has been open for so long hangs: kernels run for milliseconds, and what drains a
/// whole queue for seconds.
const HANGING_NS: u64 = 30_000_000_000;

/// Most pieces of evidence of one finding.
const EVIDENCE: usize = 5;

pub(super) fn find(figures: Figures<'_>) -> Vec<Finding> {
    let report = figures.report;
    let findings = [
        hanging(report),
        lost(report),
        unbalanced(report),
        live(report),
        incomplete(report),
        gaps(report),
        late(report),
        memory_sampled(report),
        untraced(report),
        abandoned(report),
        left_out(report),
    ];
    findings.into_iter().flatten().collect()
}

/// A finding without doubts about a fact that the recording states.
fn stated(id: &str, severity: Severity, claim: String, next_step: &str) -> Finding {
    Finding {
        id: format!("recording.{id}"),
        family: Family::Recording,
        severity,
        claim,
        numbers: BTreeMap::new(),
        confidence: Confidence::High,
        evidence: Vec::new(),
        unknowns: Vec::new(),
        next_step: next_step.to_owned(),
    }
}

fn hanging(report: &Report) -> Option<Finding> {
    let is_hanging = |call: &&OpenCall| call.age_ns.is_some_and(|age| age >= HANGING_NS);
    let hanging: Vec<&OpenCall> = report.in_flight.iter().filter(is_hanging).collect();
    let age = hanging.iter().filter_map(|call| call.age_ns).max()?;
    let calls = counted(hanging.len() as u64, "call");
    Some(Finding {
        numbers: BTreeMap::from([
            ("calls", hanging.len().into()),
            ("oldest_age_ns", age.into()),
        ]),
        evidence: hanging
            .iter()
            .take(EVIDENCE)
            .map(|call| open(call))
            .collect(),
        unknowns: vec![
            "Whether the device works on something long or is stuck: host calls cannot show it."
                .to_owned(),
        ],
        confidence: Confidence::Medium,
        ..stated(
            "hanging_call",
            Severity::Warning,
            format!(
                "{calls} had not returned when the recording ended, the oldest after {}.",
                duration(age)
            ),
            "Look at what was launched before it in that process (`cudasnoop errors`, `trace`); in \
             a job of many ranks, at the rank that is not in the same collective.",
        )
    })
}

fn open(call: &OpenCall) -> Evidence {
    let age = call.age_ns.map_or_else(|| "unknown".to_owned(), duration);
    Evidence {
        pid: Some(call.pid),
        api: call.api.map(str::to_owned),
        from_ns: Some(call.entered_ns),
        ..Evidence::new(format!("thread {} has been in it for {age}", call.tid))
    }
}

fn lost(report: &Report) -> Option<Finding> {
    let lost = &report.recording.lost;
    if lost.any() != Some(true) {
        return None;
    }
    let causes = [
        (
            lost.ring_full,
            "lost_ring_full",
            "calls found the ring buffer full",
        ),
        (
            lost.ring_full_extra,
            "lost_ring_full_extra",
            "begins of frees and kernel names found the ring buffer full",
        ),
        (
            lost.pairing_full,
            "lost_pairing_full",
            "calls found no place in the map of open calls",
        ),
        (
            lost.recursion_miss,
            "lost_recursion_miss",
            "probe hits for which the kernel ran no program",
        ),
        (
            lost.unwritten,
            "unwritten_events",
            "events could not be written before this segment",
        ),
    ];
    let seen: Vec<(u64, &'static str, &str)> = causes
        .into_iter()
        .filter_map(|(count, key, what)| Some((count.filter(|count| *count > 0)?, key, what)))
        .collect();
    let all: u64 = seen
        .iter()
        .map(|(count, ..)| *count)
        .fold(0, u64::saturating_add);
    let numbers = seen.iter().map(|(count, key, _)| (*key, (*count).into()));
    let by_cause = seen
        .iter()
        .map(|(lost, _, what)| Evidence::new(format!("{} {what}", count(*lost))));
    let worst = report
        .accounts
        .iter()
        .max_by_key(|account| account.lost_ring.saturating_add(account.lost_pairing));
    let by_function = worst
        .map(|account| {
            (
                account,
                account.lost_ring.saturating_add(account.lost_pairing),
            )
        })
        .filter(|(_, lost)| *lost > 0)
        .map(|(account, lost)| Evidence {
            api: Some(account.api.clone()),
            ..Evidence::new(format!(
                "most of one function: {} of {}",
                count(lost),
                count(account.to_account_for())
            ))
        });
    let ring = report.recording.settings.as_ref();
    let ring = ring.map_or_else(String::new, |settings| {
        format!(" (it was {})", bytes(settings.ring_bytes))
    });
    Some(Finding {
        numbers: numbers.collect(),
        evidence: by_cause.chain(by_function).collect(),
        unknowns: vec!["What the lost calls did: counts and bytes are too low.".to_owned()],
        ..stated(
            "lost",
            Severity::Warning,
            format!("The recording lost {}.", counted(all, "record")),
            &format!(
                "Record again with a larger --ring-size{ring}, or fewer families (--events memory): a \
                 ring that is emptied too slowly overflows."
            ),
        )
    })
}

fn unbalanced(report: &Report) -> Option<Finding> {
    let wrong: Vec<_> = report
        .accounts
        .iter()
        .filter(|account| !account.balanced)
        .collect();
    if wrong.is_empty() {
        return None;
    }
    let evidence = wrong.iter().take(EVIDENCE).map(|account| Evidence {
        api: Some(account.api.clone()),
        ..Evidence::new(format!(
            "{} made, {} accounted for",
            count(account.to_account_for()),
            count(account.accounted())
        ))
    });
    Some(Finding {
        numbers: BTreeMap::from([("functions", wrong.len().into())]),
        evidence: evidence.collect(),
        ..stated(
            "unbalanced",
            Severity::Warning,
            format!(
                "The accounts do not balance for {}: calls are missing without a cause.",
                counted(wrong.len() as u64, "function")
            ),
            "Do not trust these functions' figures, and report it with the recording: it is a \
             fault of cudasnoop or of the file.",
        )
    })
}

fn live(report: &Report) -> Option<Finding> {
    report.recording.live.then(|| Finding {
        unknowns: vec![
            "What comes next, and whether anything was lost since the last segment: the accounts \
             come with its end."
                .to_owned(),
        ],
        ..stated(
            "live",
            Severity::Info,
            "The recording goes on: this is what was written up to now.".to_owned(),
            "Ask again later; rows reach the disk ten seconds after they happened, at most.",
        )
    })
}

fn incomplete(report: &Report) -> Option<Finding> {
    let recording = &report.recording;
    let is_missed = if recording.live {
        // Of a segment before the one that is being written.
        recording.truncated
    } else {
        !recording.complete && recording.events > 0
    };
    if !is_missed {
        return None;
    }
    let what = if recording.live {
        "An earlier segment breaks off: what came last in it is missing."
    } else if recording.truncated {
        "The file breaks off: what came last is missing."
    } else {
        "The recorder was cut off: what came last is missing."
    };
    Some(Finding {
        unknowns: vec![
            "How much is missing, and whether anything was lost before: the accounts come last."
                .to_owned(),
        ],
        ..stated(
            "incomplete",
            Severity::Warning,
            what.to_owned(),
            "If the recorder still runs, wait for its end, or record with --rolling, where each \
             segment is whole; `cudasnoop repair` makes the file readable for other tools.",
        )
    })
}

fn gaps(report: &Report) -> Option<Finding> {
    // A process that ran before it was traced has its own finding.
    let late = |pid: u32| {
        let mut processes = report.processes.iter();
        processes.any(|process| process.pid == pid && process.from_start == Some(false))
    };
    let gaps: Vec<_> = report.gaps.iter().filter(|gap| !late(gap.pid)).collect();
    if gaps.is_empty() {
        return None;
    }
    let evidence = gaps.iter().take(EVIDENCE).map(|gap| Evidence {
        pid: Some(gap.pid),
        from_ns: Some(gap.at_ns),
        ..Evidence::new(match gap.duration_ns {
            Some(length) => format!("{}, for {}", gap.reason, duration(length)),
            None => gap.reason.clone(),
        })
    });
    Some(Finding {
        numbers: BTreeMap::from([("gaps", gaps.len().into())]),
        evidence: evidence.collect(),
        unknowns: vec!["What happened in them.".to_owned()],
        ..stated(
            "gaps",
            Severity::Info,
            format!(
                "Calls may have been missed: {}.",
                counted(gaps.len() as u64, "gap")
            ),
            "Let cudasnoop start the program (`record -- COMMAND`): then nothing is missed.",
        )
    })
}

fn late(report: &Report) -> Option<Finding> {
    let late: Vec<_> = report
        .processes
        .iter()
        .filter(|process| process.has_calls && process.from_start == Some(false))
        .collect();
    if late.is_empty() {
        return None;
    }
    let unknown_frees: u64 = late.iter().map(|process| process.unknown_frees).sum();
    let evidence = late.iter().take(EVIDENCE).map(|process| Evidence {
        pid: Some(process.pid),
        ..Evidence::new(format!(
            "ran before it was traced; {} of memory from before",
            counted(process.unknown_frees, "free")
        ))
    });
    Some(Finding {
        numbers: BTreeMap::from([
            ("processes", late.len().into()),
            ("unknown_frees", unknown_frees.into()),
        ]),
        evidence: evidence.collect(),
        unknowns: vec![
            "What they held when tracing began: no baseline, so live bytes are too low.".to_owned(),
        ],
        ..stated(
            "late_start",
            Severity::Info,
            match late.len() {
                1 => "1 process ran before it was traced.".to_owned(),
                many => format!("{many} processes ran before they were traced."),
            },
            "For whole figures start cudasnoop first (`record -- COMMAND`, or a sidecar that is up \
             before the program).",
        )
    })
}

fn memory_sampled(report: &Report) -> Option<Finding> {
    let sampled = report.processes.iter();
    let sampled: Vec<_> = sampled.filter(|process| process.memory_sampled).collect();
    if sampled.is_empty() {
        return None;
    }
    let evidence = sampled.iter().take(EVIDENCE).map(|process| Evidence {
        pid: Some(process.pid),
        ..Evidence::new("its memory calls cost more than the overhead budget")
    });
    Some(Finding {
        numbers: BTreeMap::from([("processes", sampled.len().into())]),
        evidence: evidence.collect(),
        unknowns: vec![
            "Who holds memory, and whether it leaks or is fragmented, from then on.".to_owned(),
        ],
        ..stated(
            "memory_sampled",
            Severity::Info,
            match sampled.len() {
                1 => "It is not known what 1 process holds: its memory calls came in windows."
                    .to_owned(),
                many => format!(
                    "It is not known what {many} processes hold: their memory calls came in windows."
                ),
            },
            "Record for a while with `--max-overhead off`, or a larger budget. A caching allocator saves \
             the program most of these calls.",
        )
    })
}

fn untraced(report: &Report) -> Option<Finding> {
    let first = report.untraced.first()?;
    Some(Finding {
        numbers: BTreeMap::from([("functions", report.untraced.len().into())]),
        evidence: vec![Evidence {
            api: Some(first.symbol.clone()),
            caller: Some(first.module.clone()),
            ..Evidence::new(&first.reason)
        }],
        unknowns: vec!["Whether they were called.".to_owned()],
        ..stated(
            "untraced",
            Severity::Info,
            format!(
                "{} could not be traced.",
                counted(report.untraced.len() as u64, "function")
            ),
            "See `untraced` below; `cudasnoop probes --check PID` says what would be missed.",
        )
    })
}

fn abandoned(report: &Report) -> Option<Finding> {
    let sampled = report.recording.sampled.as_ref();
    // Calls of windows are abandoned when theirs is over: that is no fault of the program.
    let is_cut = |call: &OpenCall| {
        let api = call.api.and_then(ApiId::by_name).and_then(ApiId::api);
        sampled.is_some_and(|sampled| api.is_some_and(|api| sampled.has(api)))
    };
    let calls = report.abandoned.iter().filter(|call| !is_cut(call));
    let calls: Vec<&OpenCall> = calls.collect();
    if calls.is_empty() {
        return None;
    }
    let evidence = calls.iter().take(EVIDENCE);
    Some(Finding {
        numbers: BTreeMap::from([("calls", calls.len().into())]),
        evidence: evidence.map(|call| open(call)).collect(),
        unknowns: vec!["What these calls still did.".to_owned()],
        ..stated(
            "abandoned",
            Severity::Info,
            format!(
                "{} never returned: the thread died or jumped out.",
                counted(calls.len() as u64, "call")
            ),
            "Look whether the process was killed there; an exception that leaves a CUDA call is a \
             fault of the program.",
        )
    })
}

/// More than is kept: what came beyond a limit is in no figure.
fn left_out(report: &Report) -> Option<Finding> {
    let left_out = &report.recording.left_out;
    if left_out.is_empty() {
        return None;
    }
    let numbers = left_out.iter();
    let evidence = left_out.iter();
    let evidence = evidence.map(|left_out| Evidence::new(left_out.sentence()));
    Some(Finding {
        numbers: numbers
            .map(|left_out| (left_out.key(), left_out.left_out.into()))
            .collect(),
        evidence: evidence.collect(),
        unknowns: vec![
            "What the figures would be with it, and what would be found in it.".to_owned(),
        ],
        ..stated(
            "left_out",
            Severity::Warning,
            "Figures leave something out: there was more to tell apart than is kept.".to_owned(),
            "Look at a part of the time (`--from`, `--to`): what happens outside of it takes less \
             room.",
        )
    })
}
