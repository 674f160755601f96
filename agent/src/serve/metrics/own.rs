//! What cudasnoop itself takes.

use std::{
    fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike as _,
};

use super::{Metric, Samples};

/// Adds processor time, memory and version of this process, which started at `start`.
pub(in crate::serve) fn collect(start: SystemTime, samples: &mut Samples) {
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        let micros = (usage.user_time() + usage.system_time()).num_microseconds();
        let time = Duration::from_micros(u64::try_from(micros).unwrap_or(0));
        samples.number(Metric::OwnCpu, vec![], time.as_secs_f64());
    }
    if let Some(bytes) = resident_bytes() {
        samples.count(Metric::OwnMemory, vec![], bytes);
    }
    let since = start.duration_since(UNIX_EPOCH).unwrap_or_default();
    samples.number(Metric::OwnStart, vec![], since.as_secs_f64());
    let version = env!("CARGO_PKG_VERSION").into();
    samples.count(Metric::Build, vec![version], 1);
}

/// From `VmRSS` of /proc/self/status, which has it in KiB.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    kib.checked_mul(1024)
}
