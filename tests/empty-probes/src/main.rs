//! Attaches programs that do nothing to the very instructions that `cudasnoop record -p` probes:
//! the price of the probes as such, which the bench compares cudasnoop's with.
//!
//! One multi link holds all entries of a file and one all returns, scoped to the process.

use std::{
    io::{self, Write as _},
    num::NonZeroU32,
    path::PathBuf,
};

use agent::discover::{Found, Libraries, Library, Mappings, ProbePoint, Process, Seen};
use agent_common::Probe;
use anyhow::{Context as _, Result, ensure};
use aya::{
    Ebpf,
    programs::{
        UProbe,
        uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeScope},
    },
};
use clap::Parser;

/// Attaches empty probes to a process and takes them off when stdin ends.
///
/// Prints each probed function, its symbol and file, and then `attached`.
#[derive(Debug, Parser)]
struct Options {
    /// The eBPF object, src/programs.rs compiled.
    #[arg(long)]
    object: PathBuf,
    /// The process, which has its CUDA libraries loaded.
    #[arg(long)]
    pid: NonZeroU32,
}

fn main() -> Result<()> {
    let Options { object, pid } = Options::parse();
    let object = Ebpf::load_file(&object)
        .with_context(|| format!("loading the eBPF object {}", object.display()))?;
    let mut probes = Probes { object, pid };
    let found = libraries(pid.get())?;
    ensure!(
        !found.is_empty(),
        "process {pid} has no CUDA library loaded"
    );
    let mut stdout = io::stdout().lock();
    for Found { library, path, .. } in &found {
        let returning =
            |point: &&ProbePoint| point.api.api().is_some_and(|api| api.probe != Probe::Entry);
        probes.attach(
            "empty_return",
            library,
            library.points.iter().filter(returning),
        )?;
        probes.attach("empty_entry", library, library.points.iter())?;
        for point in &library.points {
            writeln!(stdout, "{} {}", point.symbol, path.display())?;
        }
    }
    writeln!(stdout, "attached")?;
    stdout.flush()?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

fn libraries(pid: u32) -> Result<Vec<Found>> {
    let process = Process::open(pid)?;
    let mappings = Mappings::read(&process)?;
    let scan = Libraries::default().scan(&process, &mappings, &mut Seen::default());
    Ok(scan.found)
}

/// The programs, and whom they are for.
struct Probes {
    object: Ebpf,
    pid: NonZeroU32,
}

impl Probes {
    /// One link for all these points. It lives as long as the programs.
    fn attach<'a>(
        &mut self,
        program: &str,
        library: &Library,
        points: impl Iterator<Item = &'a ProbePoint>,
    ) -> Result<()> {
        let points: Vec<UProbeAttachPoint<'static>> = points
            .map(|point| UProbeAttachPoint {
                location: UProbeAttachLocation::AbsoluteOffset(point.offset),
                cookie: None,
            })
            .collect();
        if points.is_empty() {
            return Ok(());
        }
        let path = library.file.attach_path();
        let attempt = || format!("attaching {program} to {}", path.display());
        let uprobe: &mut UProbe = self
            .object
            .program_mut(program)
            .with_context(|| format!("the object has no program {program}"))?
            .try_into()?;
        if uprobe.fd().is_err() {
            uprobe
                .load()
                .with_context(|| format!("loading {program}"))?;
        }
        let scope = UProbeScope::OneProcess(self.pid);
        uprobe.attach(points, &path, scope).with_context(attempt)?;
        Ok(())
    }
}
