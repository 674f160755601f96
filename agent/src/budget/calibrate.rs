//! What a hit costs here: measured at the start, with the session's own programs on a function of
//! our own, before anything else is probed.

use std::{arch::naked_asm, fs, hint::black_box, io, path::Path};

use agent_common::{ApiId, Effect, Layer, Probe, ProbeClass, Site, SiteFile};
use aya::maps::{MapData, MapError, RingBuf};
use nix::time::{ClockId, clock_gettime};
use thiserror::Error;

use super::Prices;
use crate::{
    attach::{AttachError, EntryOnly, Links, Placed, Sites},
    discover::{Process, ProcessError},
    kernel::AttachMode,
    programs::{CallProgram, Programs, State},
};

/// Why it could not be measured.
#[derive(Debug, Error)]
pub(crate) enum CalibrationError {
    /// Where our function is in our file.
    #[error("finding an own function in /proc/self/maps: {0}")]
    Place(#[from] io::Error),
    /// What we are.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The probe.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Leaving no trace.
    #[error("resetting what was counted: {0}")]
    Reset(#[from] MapError),
}

/// Calls that are measured, each by itself; the median counts.
const CALLS: usize = 1000;
/// Bytes that a program reads, and runs through, between two calls.
const OTHER_WORK: usize = 256 << 10;

/// What a hit costs in all, by what it takes until it is over: what it evicts, the program fetches anew.
/// 1.04 to 1.55 times as much here, by how much code and data other work goes through (16 to 256 KiB; a
/// Xeon, Linux 6.18, 2026-11-29). Beside windows of hits a vLLM engine lost 1.09 (eager) and 1.22 times
/// (graphs) what these took by themselves, on an H200, and a loop in Python 1.32 times.
const AFTERMATH: f64 = 1.25;

/// Begins as nearly all functions of CUDA do: with a `push`, which the kernel carries out itself.
#[unsafe(naked)]
extern "C" fn probed() {
    naked_asm!("push rbp", "mov rbp, rsp", "pop rbp", "ret");
}

/// Measures. Whatever is in `ring` is lost, and nothing is left in `state`.
pub(crate) fn calibrate(
    programs: &mut Programs,
    sites: &mut Sites,
    ring: &mut RingBuf<MapData>,
    state: &mut State,
    mode: AttachMode,
) -> Result<Prices, CalibrationError> {
    let offset = file_offset()?;
    let own = Process::open(std::process::id())?;
    // Any function will do that is reported like most: this one waits for a stream.
    let is_usual = |id: &ApiId| {
        id.api()
            .is_some_and(|api| api.effect == Effect::Wait && api.layer == Layer::Driver)
    };
    let site = ApiId::all().find(is_usual).and_then(|api| {
        let file = SiteFile {
            text_before: 0,
            text_after: 0,
            before_13: false,
        };
        Some((api, Site::new(api, "", file)?))
    });
    let Some((api, site)) = site else {
        return Ok(Prices::ASSUMED);
    };
    let alone = measure(ring);
    let mut with_probes = |probe: Probe| {
        let mut probed = site;
        probed.probe = probe as u8;
        let site = sites.add(probed).map_err(AttachError::from)?;
        let point = Placed {
            program: CallProgram::Call,
            offset,
            site,
            returns: probe != Probe::Entry,
            api,
            class: ProbeClass::Hot,
        };
        let links = Links::attach_to_self(programs, point, Path::new("/proc/self/exe"), mode)?;
        let cost = measure(ring) - alone;
        Links::detach_all(vec![links]);
        Ok::<_, AttachError>(AFTERMATH * cost.max(1.0))
    };
    let entry = with_probes(Probe::Entry)?;
    // They might harm us as they might harm others.
    let at_return = if EntryOnly::Auto.reason(&own).is_none() {
        (with_probes(Probe::Return)? - entry).max(1.0)
    } else {
        entry
    };
    state.forget(api)?;
    Ok(Prices { entry, at_return })
}

/// Has as many lines of code as [`OTHER_WORK`] has: a jump in each.
#[unsafe(naked)]
extern "C" fn other_code() {
    naked_asm!(
        ".balign 64",
        ".rept {lines}",
        "jmp 2f",
        ".balign 64",
        "2:",
        ".endr",
        "ret",
        lines = const OTHER_WORK / 64,
    );
}

/// ns that a call takes in a program that does other work between its calls, as all do: the
/// processor has little of what a probe needs at hand then. In a loop of nothing but calls a hit came
/// out at half of that (800 and 1,450 ns, Linux 6.18).
fn measure(ring: &mut RingBuf<MapData>) -> f64 {
    let other_data = vec![1_u8; OTHER_WORK];
    let mut times: Vec<f64> = (0..CALLS)
        .map(|_| {
            black_box(other_code as extern "C" fn())();
            black_box(
                other_data
                    .iter()
                    .step_by(64)
                    .map(|byte| u64::from(*byte))
                    .sum::<u64>(),
            );
            let before = now();
            black_box(probed as extern "C" fn())();
            let time = now() - before;
            while ring.next().is_some() {}
            time
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[CALLS / 2]
}

/// ns of a clock that costs no system call.
#[expect(clippy::cast_precision_loss, reason = "differences of it are small")]
fn now() -> f64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0.0, |time| {
        time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
    })
}

/// Where [`probed`] is in our file.
fn file_offset() -> io::Result<u64> {
    let address = probed as extern "C" fn() as usize as u64;
    let maps = fs::read_to_string("/proc/self/maps")?;
    let place = maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = (number(start)?, number(end)?);
        let offset = number(words.nth(1)?)?;
        (start..end)
            .contains(&address)
            .then(|| address - start + offset)
    });
    place.ok_or_else(|| io::Error::other("no mapping has it"))
}
