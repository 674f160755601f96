//! Is it the host that holds the device back, by launching one kernel at a time?

use std::collections::BTreeMap;

use super::{Confidence, Evidence, Family, Figures, Finding, Severity};
use crate::host::{SMALL_GRID_BLOCKS, ThreadPace};
use crate::report::Report;
use crate::text::{count, duration, percent};

/// Fewer launches back to back are no burden.
const FEWEST_LAUNCHES: u64 = 2_000;

/// So much of the time between a thread's first and last launch is spent in launching.
const MOSTLY_PERCENT: u64 = 30;

/// From one launch graph on for so many kernel launches, graphs are in use.
const LAUNCHES_PER_GRAPH: u64 = 100;

/// So many waits show whether there was something to wait for.
const FEWEST_WAITS: u64 = 3;

/// Waits after launches may take so much of the time that launching took.
const WAITING_PERCENT: u64 = 10;

/// The device's queue holds some 1,024 launches; a call that finds it full blocks.
const MORE_THAN_THE_QUEUE: u64 = 2_048;

pub(super) fn find(figures: Figures<'_>) -> Vec<Finding> {
    let report = figures.report;
    let threads = report.host.threads.iter();
    threads
        .filter_map(|thread| launch_bound(thread, report))
        .collect()
}

/// Why the device is thought to have had nothing left to do.
enum Drained {
    /// Waits after launches returned at once.
    ByWaits,
    /// More launches than the queue holds, and none blocked.
    ByCalls,
    /// Nothing shows it.
    Unknown,
}

fn launch_bound(thread: &ThreadPace, report: &Report) -> Option<Finding> {
    let ThreadPace {
        pid: Some(pid),
        tid: Some(tid),
        ref launches,
        ref waits,
        ..
    } = *thread
    else {
        return None;
    };
    let stretches = launches.back_to_back;
    let longest = stretches.longest?;
    let (from, to) = launches.launched_from_ns.zip(launches.launched_to_ns)?;
    let span = to.saturating_sub(from);
    let share = percent(stretches.total_ns, span);
    let uses_graphs =
        launches.graph_launches.saturating_mul(LAUNCHES_PER_GRAPH) >= launches.launches;
    // Who waits after each launch has another problem, and its own finding.
    let waits_all_the_time =
        (waits.after_few.waits + waits.after_scalar.waits).saturating_mul(4) >= launches.launches;
    if stretches.calls < FEWEST_LAUNCHES
        || share < MOSTLY_PERCENT
        || uses_graphs
        || waits_all_the_time
    {
        return None;
    }
    let many = waits.after_many;
    let mostly_small = launches.small_grids.saturating_mul(2) >= launches.grids.max(1);
    let drained = if many.waits >= FEWEST_WAITS {
        let at_once = many.at_once.saturating_mul(2) >= many.waits;
        let little = percent(many.total_ns, stretches.total_ns) < WAITING_PERCENT;
        if !(at_once && little) {
            // The device had work left: it is the device that takes the time.
            return None;
        }
        Drained::ByWaits
    } else if let Some(slow) = launches.slow_calls {
        if slow.saturating_mul(100) > launches.launches {
            return None;
        }
        if longest.calls >= MORE_THAN_THE_QUEUE {
            Drained::ByCalls
        } else {
            Drained::Unknown
        }
    } else {
        Drained::Unknown
    };
    if matches!(drained, Drained::Unknown) && !mostly_small {
        return None;
    }
    let lossy = report.recording.lost.any() == Some(true);
    let (severity, confidence) = match drained {
        Drained::Unknown => (Severity::Info, Confidence::Low),
        Drained::ByWaits | Drained::ByCalls if lossy => (Severity::Warning, Confidence::Low),
        Drained::ByWaits | Drained::ByCalls => (Severity::Warning, Confidence::Medium),
    };
    let interval = launches.interval_ns?;
    let mut numbers = BTreeMap::from([
        ("launches", launches.launches.into()),
        ("back_to_back_launches", stretches.calls.into()),
        ("back_to_back_ns", stretches.total_ns.into()),
        ("launching_span_ns", span.into()),
        ("interval_p50_ns", interval.p50.into()),
        ("graph_launches", launches.graph_launches.into()),
        ("small_grid_launches", launches.small_grids.into()),
        ("waits_after_launches", many.waits.into()),
        ("waits_at_once", many.at_once.into()),
        ("waits_after_launches_ns", many.total_ns.into()),
    ]);
    if let Some(calls) = launches.call_ns {
        numbers.insert("launch_call_p50_ns", calls.percentiles.p50.into());
    }
    let at = |what: String| Evidence {
        pid: Some(pid),
        ..Evidence::new(what)
    };
    let mut evidence = vec![Evidence {
        from_ns: Some(longest.from_ns),
        to_ns: Some(longest.to_ns),
        ..at(format!(
            "thread {tid}: the longest stretch has {} launches, one every {} (median)",
            count(longest.calls),
            duration(interval.p50)
        ))
    }];
    match drained {
        Drained::ByWaits => evidence.push(at(format!(
            "{} of {} waits after launches returned at once: the queue was drained",
            count(many.at_once),
            count(many.waits)
        ))),
        Drained::ByCalls => evidence.push(at(
            "no launch call blocked, though more came than the queue holds".to_owned(),
        )),
        Drained::Unknown => {}
    }
    if launches.grids > 0 {
        evidence.push(at(format!(
            "{} % of the grids have fewer than {SMALL_GRID_BLOCKS} blocks, less than a GPU has \
             multiprocessors",
            percent(launches.small_grids, launches.grids)
        )));
    }
    let claim = match drained {
        Drained::ByWaits | Drained::ByCalls => format!(
            "Process {pid} seems bound by launches: thread {tid} spends {share} % of its time \
             in launching kernels one by one, and the device keeps up."
        ),
        Drained::Unknown => format!(
            "Process {pid} launches many small kernels one by one: {} in stretches that take {share} % of \
             the time of thread {tid}.",
            count(stretches.calls)
        ),
    };
    let mut unknowns = vec![
        "How busy the device is: host calls cannot show it. A profiler with GPU times (nsys) can."
            .to_owned(),
    ];
    if matches!(drained, Drained::Unknown) {
        unknowns.push(
            "Whether the device keeps up: the thread hardly ever waits for it. `record \
             --launch-returns` shows launch calls that block."
                .to_owned(),
        );
    }
    if launches.call_ns.is_none() {
        unknowns.push(
            "How much of it is the launch call and how much the program between two calls; \
             probes add about 1 µs a launch."
                .to_owned(),
        );
    }
    Some(Finding {
        id: format!("launch.host_bound:{pid}:{tid}"),
        family: Family::Launch,
        severity,
        claim,
        numbers,
        confidence,
        evidence,
        unknowns,
        next_step: "Launch fewer, larger pieces: CUDA graphs (torch.cuda.graph, \
                    torch.compile(mode=\"reduce-overhead\"); in vLLM without --enforce-eager) replay \
                    many kernels with one call; torch.compile fuses small ones; a larger batch gives \
                    each launch more work."
            .to_owned(),
    })
}
