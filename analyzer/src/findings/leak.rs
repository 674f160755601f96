//! Memory that grows and does not come back.
//!
//! PyTorch's blocks are judged where PyTorch reports them; what its allocator takes from the
//! device follows from them, and is [`super::allocator`]'s subject. The end of a process frees
//! everything and is no leak: it is judged as it was right before.

use std::collections::BTreeMap;

use super::growing::{Doubts, evidence, numbers, per_minute, subject};
use super::{Confidence, Evidence, Family, Figures, Finding, Severity};
use crate::growth::{Growth, Rate, Shape, Sleep, Source};
use crate::report::{Process, Report};
use crate::text::{bytes, counted, duration};

/// A device that is full so soon, ns, is about to fail.
const SOON: u64 = 3600 * 1_000_000_000;

/// Of what a sleep unmaps, this part or less is nothing.
const FREED_NOTHING: u64 = 20;

/// Most size classes that are named.
const CLASSES: usize = 3;

pub(super) fn find(figures: Figures<'_>) -> Vec<Finding> {
    let mut findings = growths(figures);
    findings.extend(cycles(figures));
    findings.extend(sleeps(figures));
    findings.extend(orphans(figures.report));
    findings
}

/// Whose memory grows: everything but the sizes.
type Place<'a> = (u32, Option<u64>, Option<i32>, Source, Option<&'a str>);

fn place(growth: &Growth) -> Place<'_> {
    let Growth {
        pid,
        start_time,
        device,
        source,
        ref caller,
        ..
    } = *growth;
    (pid, start_time, device, source, caller.as_deref())
}

fn growths(figures: Figures<'_>) -> Vec<Finding> {
    let mut places: BTreeMap<Place<'_>, Vec<&Growth>> = BTreeMap::new();
    for growth in &figures.report.growth {
        if growth.shape == Shape::Growing
            && !growth.is_allocator
            && growth.source != Source::TorchReserved
        {
            places.entry(place(growth)).or_default().push(growth);
        }
    }
    let findings = places.into_values();
    findings
        .filter_map(|lines| growing(figures, &lines))
        .collect()
}

/// The lines are those of one place that grow.
fn growing(figures: Figures<'_>, lines: &[&Growth]) -> Option<Finding> {
    let mut classes: Vec<&Growth> = lines
        .iter()
        .copied()
        .filter(|line| !line.is_total())
        .collect();
    let by_rate = |growth: &&Growth| growth.rate.map_or(0, |rate| rate.growth_bytes);
    classes.sort_by_key(|growth| std::cmp::Reverse(by_rate(growth)));
    // Where single sizes grow, they tell more than all together, among which much comes and goes.
    let whole = lines.iter().copied().find(|line| line.is_total());
    let leading = classes.first().copied().or(whole)?;
    let rate = classes
        .iter()
        .filter_map(|growth| growth.rate)
        .reduce(sum)
        .or(leading.rate)?;
    let doubts = Doubts::about(figures.report, leading);
    let until_full_ns = Growth {
        rate: Some(rate),
        ..leading.clone()
    }
    .until_full_ns();
    let until_full_ns = until_full_ns.filter(|_| on_device(leading.source));
    let severity = match until_full_ns {
        _ if doubts.is_lossy => Severity::Info,
        Some(left) if left < SOON && !doubts.is_late => Severity::Critical,
        Some(_) | None => Severity::Warning,
    };
    let mut numbers = numbers(&rate);
    numbers.insert("live_bytes", leading.live_bytes.into());
    numbers.extend(until_full_ns.map(|left| ("until_full_ns", left.into())));
    let shown = if classes.is_empty() { lines } else { &classes };
    let mut evidence: Vec<Evidence> = shown
        .iter()
        .take(CLASSES)
        .filter_map(|growth| Some(evidence(growth, &growth.rate?, &sizes(growth))))
        .collect();
    if let (Some(left), Some(free)) = (until_full_ns, leading.free_bytes) {
        evidence.push(Evidence::new(format!(
            "{} of the device are free by the program's last question: full in {}",
            bytes(free),
            duration(left)
        )));
    }
    let mut unknowns = doubts.unknowns();
    unknowns.push(
        "Whether it would come back after longer than the recording: a period that is longer \
         looks the same."
            .to_owned(),
    );
    if until_full_ns.is_none() && on_device(leading.source) {
        unknowns.push("When the device is full: the program never asked what is free.".to_owned());
    }
    Some(Finding {
        id: id(leading),
        family: Family::Leak,
        severity,
        claim: format!(
            "{} grows by {} and does not come back.",
            what(leading),
            per_minute(rate.bytes_per_second)
        ),
        numbers,
        confidence: doubts.confidence(rate.steps),
        evidence,
        unknowns,
        next_step: next_step(leading.source).to_owned(),
    })
}

fn id(growth: &Growth) -> String {
    let subject = subject(growth);
    match (growth.source, growth.caller.as_deref()) {
        (Source::Torch, _) => format!("leak.growth:{subject}"),
        (source, caller) => {
            let file = caller.map_or("unknown", file_name);
            format!("leak.growth:{subject}:{}:{file}", source.name())
        }
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What grows, as the subject of a sentence.
fn what(growth: &Growth) -> String {
    let kind = match growth.source {
        Source::Torch => return "What the program holds of PyTorch's memory".to_owned(),
        Source::TorchReserved | Source::Device => "Device memory",
        Source::Pool => "Memory of a pool",
        Source::Vmm => "Physical device memory",
        Source::Managed => "Managed memory",
        Source::PinnedHost => "Pinned host memory (not the device's)",
        Source::Graph => "Memory of graphs",
    };
    match growth.caller.as_deref() {
        Some(caller) => format!("{kind} that {} takes", file_name(caller)),
        None => format!("{kind} that an unknown file takes"),
    }
}

fn sizes(growth: &Growth) -> String {
    match (growth.sizes_above, growth.sizes_to) {
        (Some(above), Some(to)) => format!("blocks above {} and up to {}", bytes(above), bytes(to)),
        (None, _) | (_, None) => "all sizes".to_owned(),
    }
}

const fn on_device(source: Source) -> bool {
    !matches!(source, Source::PinnedHost | Source::Managed)
}

const fn next_step(source: Source) -> &'static str {
    match source {
        Source::Torch => {
            "Find who keeps tensors of these sizes: `cudasnoop snapshot` with a PyTorch snapshot \
             names the line of code (torch.cuda.memory._record_memory_history). Usual: a list of \
             losses or outputs that keeps its graph (.detach(), .item()), a cache without a limit."
        }
        Source::PinnedHost => {
            "Look at what pins host memory and keeps it (pin_memory, offloading buffers): the \
             host runs out of memory, not the device."
        }
        Source::TorchReserved
        | Source::Device
        | Source::Pool
        | Source::Vmm
        | Source::Managed
        | Source::Graph => {
            "Look at what makes that library allocate and never free: communicators or handles \
             that are made again and not destroyed, workspaces for each new shape or stream. \
             `cudasnoop memory --timeline` shows the curve."
        }
    }
}

/// Two rates that are seen over the same time, together. Their errors are independent.
fn sum(one: Rate, other: Rate) -> Rate {
    let rate = one.bytes_per_second + other.bytes_per_second;
    let error = |rate: &Rate| rate.high_bytes_per_second - rate.bytes_per_second;
    let error = error(&one).hypot(error(&other));
    Rate {
        bytes_per_second: rate,
        low_bytes_per_second: (rate - error).max(0.0),
        high_bytes_per_second: rate + error,
        growth_bytes: one.growth_bytes.saturating_add(other.growth_bytes),
        steps: one.steps.saturating_add(other.steps),
        from_ns: one.from_ns.min(other.from_ns),
        to_ns: one.to_ns.max(other.to_ns),
    }
}

/// Libraries that are set up and torn down, and leave something each time.
fn cycles(figures: Figures<'_>) -> Vec<Finding> {
    let lines = figures.report.growth.iter();
    lines
        .filter(|line| line.is_total() && !line.is_allocator && line.shape != Shape::Growing)
        .filter(|line| !matches!(line.source, Source::Torch | Source::TorchReserved))
        .filter_map(|line| {
            let cycles = line.cycles?;
            let doubts = Doubts::about(figures.report, line);
            let file = line.caller.as_deref().map_or("unknown", file_name);
            Some(Finding {
                id: format!("leak.cycle:{}:{}:{file}", subject(line), line.source.name()),
                family: Family::Leak,
                severity: if doubts.is_lossy {
                    Severity::Info
                } else {
                    Severity::Warning
                },
                claim: format!(
                    "Each time that {file} sets its memory up and tears it down, {} stay.",
                    bytes(cycles.left_bytes)
                ),
                numbers: BTreeMap::from([
                    ("cycles", cycles.count.into()),
                    ("left_bytes", cycles.left_bytes.into()),
                    ("live_bytes", line.live_bytes.into()),
                ]),
                confidence: if doubts.is_lossy {
                    Confidence::Low
                } else {
                    Confidence::Medium
                },
                evidence: vec![Evidence {
                    pid: Some(line.pid),
                    device: line.device,
                    caller: line.caller.clone(),
                    ..Evidence::new(format!(
                        "after the first, which is the baseline, {} left the same",
                        counted(cycles.count, "more cycle")
                    ))
                }],
                unknowns: doubts.unknowns(),
                next_step: "Destroy what is made in each cycle (torch.distributed's \
                            destroy_process_group, ncclCommDestroy, cublasDestroy), or make it \
                            once and keep it."
                    .to_owned(),
            })
        })
        .collect()
}

/// Sleeps that gave nothing back.
fn sleeps(figures: Figures<'_>) -> Vec<Finding> {
    let mut by_process: BTreeMap<u32, Vec<&Sleep>> = BTreeMap::new();
    for sleep in &figures.report.sleeps {
        by_process.entry(sleep.pid).or_default().push(sleep);
    }
    let of = by_process.into_iter();
    of.filter_map(|(pid, sleeps)| {
        let is_vain = |sleep: &&&Sleep| sleep.freed_bytes <= sleep.unmapped_bytes / FREED_NOTHING;
        let vain: Vec<&Sleep> = sleeps.iter().filter(is_vain).copied().collect();
        let last = vain.last()?;
        let unmapped: u64 = vain.iter().map(|sleep| sleep.unmapped_bytes).sum();
        let freed: u64 = vain.iter().map(|sleep| sleep.freed_bytes).sum();
        Some(Finding {
            id: format!("leak.sleep_freed_nothing:{pid}"),
            family: Family::Leak,
            severity: Severity::Warning,
            claim: format!(
                "A sleep freed nothing: {} were unmapped, and {} came back to the device.",
                bytes(last.unmapped_bytes),
                bytes(last.freed_bytes)
            ),
            numbers: BTreeMap::from([
                ("sleeps", sleeps.len().into()),
                ("in_vain", vain.len().into()),
                ("unmapped_bytes", unmapped.into()),
                ("freed_bytes", freed.into()),
                ("kept_bytes", last.kept_bytes.into()),
            ]),
            confidence: Confidence::High,
            evidence: vec![Evidence {
                pid: Some(pid),
                from_ns: Some(last.from_ns),
                to_ns: Some(last.to_ns),
                ..Evidence::new(format!(
                    "{} of {} gave nothing back; the process kept {}",
                    vain.len(),
                    counted(sleeps.len() as u64, "sleep"),
                    bytes(last.kept_bytes)
                ))
            }],
            unknowns: vec!["Which handles to the memory are left, and who has them.".to_owned()],
            next_step: "Release every handle (cuMemRelease) of what is unmapped, also those that \
                        were retained or exported; with vLLM's sleep mode leave \
                        expandable_segments off in PYTORCH_ALLOC_CONF and \
                        PYTORCH_CUDA_ALLOC_CONF."
                .to_owned(),
        })
    })
    .collect()
}

/// Processes that live on, and hold memory, after their parent ended: a server that was killed
/// leaves its workers.
fn orphans(report: &Report) -> Vec<Finding> {
    let orphan = |process: &Process| {
        if process.ended_ns.is_some() {
            return None;
        }
        let is_parent = |other: &&Process| {
            Some(other.pid) == process.parent && other.start_time < process.start_time
        };
        let parent = report.processes.iter().find(is_parent)?;
        let ended = parent.ended_ns?;
        let is_its = |pid, start_time| (pid, start_time) == (process.pid, process.start_time);
        let memory = report.memory.iter();
        let held: u64 = memory
            .filter(|memory| is_its(memory.pid, memory.start_time))
            .filter_map(|memory| memory.live_bytes)
            .sum();
        (held > 0).then(|| orphaned(process, parent, ended, held))
    };
    report.processes.iter().filter_map(orphan).collect()
}

fn orphaned(process: &Process, parent: &Process, ended: u64, held: u64) -> Finding {
    let pid = process.pid;
    Finding {
        id: format!("leak.orphan:{pid}"),
        family: Family::Leak,
        // A launcher that ends at once is no server that was killed.
        severity: if parent.has_calls {
            Severity::Warning
        } else {
            Severity::Info
        },
        claim: format!(
            "Process {pid} lives on without its parent {}, and holds {}.",
            parent.pid,
            bytes(held)
        ),
        numbers: BTreeMap::from([("parent", parent.pid.into()), ("live_bytes", held.into())]),
        confidence: Confidence::High,
        evidence: vec![Evidence {
            pid: Some(parent.pid),
            from_ns: Some(ended),
            ..Evidence::new("the parent ended")
        }],
        unknowns: vec!["Whether it is meant to go on alone.".to_owned()],
        next_step: format!(
            "If it is not wanted, end it (kill {pid}): until then the device's memory is taken, \
             and a new server finds it full."
        ),
    }
}
