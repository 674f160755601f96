//! Calls that failed.

use std::collections::BTreeMap;

use super::{Confidence, Evidence, Family, Figures, Finding, Severity};
use crate::demangle;
use crate::failures::{Call, Failure, OUT_OF_MEMORY};
use crate::text::{count, counted, shortened};

/// After these a process's context is lost: CUDA says that "the process must be terminated and
/// relaunched" (`driver_types.h`, the comments of 700 to 721), and a device with an uncorrectable
/// error of its memory or links takes no more work.
const FATAL: [i32; 14] = [
    214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 999,
];

/// `cudaErrorCudartUnloading`: what programs do to CUDA while they end. Each PyTorch program does.
const UNLOADING: i32 = 4;

/// Most launches that are named.
const LAUNCHES: usize = 3;

/// Most characters of a kernel's name.
const KERNEL: usize = 48;

pub(super) fn find(figures: Figures<'_>) -> Vec<Finding> {
    let failures = figures.report.failures.iter();
    // What found no memory is told by the families `oom` and `allocator`.
    failures
        .filter(|failure| !matches!(failure.code, OUT_OF_MEMORY | UNLOADING))
        .map(failed)
        .collect()
}

fn failed(failure: &Failure) -> Finding {
    let Failure {
        pid,
        code,
        name: _,
        first,
        calls,
        by_function: _,
        before: _,
        launches_before,
        calls_after,
        failed_after,
    } = failure;
    let is_fatal = FATAL.contains(code);
    let first_sign = if failure.is_told() {
        format!("asks what {code} means")
    } else {
        format!("the first to return {code}")
    };
    let mut evidence = vec![call(*pid, first, &first_sign)];
    let launches = launches_before.iter().rev().take(LAUNCHES);
    evidence.extend(launches.map(|launch| {
        let kernel = launch.kernel.as_deref();
        let kernel = kernel.map_or_else(
            || "an unnamed kernel".to_owned(),
            |kernel| shortened(&demangle::folded(kernel, KERNEL), KERNEL),
        );
        call(*pid, launch, &format!("launched before it: {kernel}"))
    }));
    if *calls_after > 0 {
        evidence.push(Evidence::new(format!(
            "after it {} of {} failed",
            count(*failed_after),
            counted(*calls_after, "call")
        )));
    }
    let mut unknowns = Vec::new();
    if failure.is_told() {
        unknowns.push(
            "Which call returned it first: launches are traced without their results \
             (--launch-returns), and cudaGetLastError is not traced."
                .to_owned(),
        );
    }
    if is_fatal {
        unknowns.push(
            "Which work on the device made it: errors come back with a later call. \
             CUDA_LAUNCH_BLOCKING=1 makes the culprit's own call return it."
                .to_owned(),
        );
    }
    Finding {
        id: format!(
            "error.{}:{pid}:{code}",
            if is_fatal { "fatal" } else { "failed" }
        ),
        family: Family::Error,
        severity: if is_fatal {
            Severity::Critical
        } else {
            Severity::Info
        },
        claim: claim(failure, is_fatal),
        numbers: BTreeMap::from([
            ("code", (*code).into()),
            ("calls", (*calls).into()),
            ("calls_after", (*calls_after).into()),
            ("failed_after", (*failed_after).into()),
        ]),
        confidence: if *calls == 0 {
            Confidence::Medium
        } else {
            Confidence::High
        },
        evidence,
        unknowns,
        next_step: next_step(*code).to_owned(),
    }
}

fn claim(failure: &Failure, is_fatal: bool) -> String {
    let (code, name) = (failure.code, failure.name.unwrap_or("unknown"));
    let happened = if failure.is_told() {
        format!("CUDA told the program of {code} ({name})")
    } else if is_fatal {
        format!("{} failed with {code} ({name})", failure.first.api)
    } else {
        let calls = counted(failure.calls, "call");
        format!("{calls} failed with {code} ({name})")
    };
    if is_fatal && failure.is_sticky() == Some(true) {
        format!("{happened}, and every later call failed: the process can use the device no more.")
    } else {
        format!("{happened}.")
    }
}

fn call(pid: u32, call: &Call, what: &str) -> Evidence {
    Evidence {
        pid: Some(pid),
        api: Some(call.api.to_owned()),
        from_ns: Some(call.at_ns),
        ..Evidence::new(format!("{what}, by thread {}", call.tid))
    }
}

const fn next_step(code: i32) -> &'static str {
    match code {
        214 => {
            "The device's memory has an uncorrectable error: look at `nvidia-smi -q -d ECC,ROW_REMAPPER` \
             and the Xid in the kernel's log, drain the node, reset the device."
        }
        220 => {
            "A link between devices failed: look at `nvidia-smi nvlink -e` and the Xid in the \
             kernel's log; reset the devices, or replace the part."
        }
        226 => {
            "The error was contained to this process: restart it, and look at the Xid in the \
             kernel's log."
        }
        700 | 716 | 717 => {
            "A kernel used memory that is not its own: run it under compute-sanitizer, or with \
             CUDA_LAUNCH_BLOCKING=1 to learn which; an index out of range is the usual cause."
        }
        710 => {
            "A device-side assert, in PyTorch usually an index or class number out of range: its \
             text is on the program's standard error; CUDA_LAUNCH_BLOCKING=1 shows the line."
        }
        702 => {
            "A kernel ran longer than the device lets it (a display is attached): make it \
             shorter, or use a device without one."
        }
        714 | 715 | 718 | 719 | 721 | 999 => {
            "A kernel crashed: run it under compute-sanitizer, or with CUDA_LAUNCH_BLOCKING=1; \
             restart the process, since its context is lost."
        }
        _ => {
            "See `cudasnoop errors` for what came before. Programs that try what a device can do \
             get such errors and go on."
        }
    }
}
