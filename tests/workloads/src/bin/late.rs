//! Opens CUDA late and calls it at once; then, if asked, in forked children and in a new image
//! of the same process. The first calls after each of these are the ones that are easily missed.

use std::{env, os::unix::process::CommandExt, path::PathBuf, process::Command};
use std::{thread, time::Duration};

use clap::Parser;
use workloads::{
    entries::{self, Entries},
    kernels,
    options::{CommonOptions, Step},
    process,
    report::Report,
    runtime::Runtime,
    runtime_session::{LaunchForm, LaunchShape, RuntimeSession, Twin},
    tally::{Live, Tally},
};

/// Opens CUDA late and calls it at once.
#[derive(Clone, Debug, Parser)]
struct Options {
    #[command(flatten)]
    common: CommonOptions,
    /// Runtimes to open one after the other; `--cudart` where none is given.
    #[arg(long = "path")]
    paths: Vec<PathBuf>,
    /// Milliseconds to sleep before each opening.
    #[arg(long, default_value_t = 200)]
    after_ms: u64,
    /// Rounds of `cudaMalloc`, `cudaLaunchKernel` and `cudaFree` after each opening.
    #[arg(long, default_value_t = 50)]
    calls: usize,
    /// Children to fork once everything is open; each makes the same rounds at once.
    #[arg(long, default_value_t = 0)]
    fork: usize,
    /// At the end, replace this program by itself and do everything once more.
    #[arg(long)]
    exec: bool,
    /// What an earlier image of this process reported.
    #[arg(long, hide = true)]
    earlier: Option<String>,
}

/// Bytes of a block.
const SIZE: usize = 4096;

fn main() {
    let options = Options::parse();
    options.common.wait_at(Step::Load);
    let mut paths = options.paths.clone();
    if paths.is_empty() {
        paths.push(options.common.cudart.clone());
    }

    let (live, mut tally, mut runtimes) = (Live::default(), Tally::new(), Vec::new());
    for path in paths {
        thread::sleep(Duration::from_millis(options.after_ms));
        let runtime = Runtime::open(&path);
        options.common.wait_at(Step::Call);
        tally.add(&rounds(&runtime, &live, options.calls));
        runtimes.push(runtime);
    }
    let children: Vec<process::Child> = (0..options.fork)
        .map(|_| process::fork(|| child(&runtimes, options.calls)))
        .collect();
    let mut report = report(&runtimes, &tally, &live, &Entries::new());
    for child in children {
        report.add(child.join());
    }
    if let Some(earlier) = &options.earlier {
        report.add(serde_json::from_str(earlier).expect("our own report"));
    }
    if options.exec {
        run_again(report);
    }
    report.print();
    options.common.wait_at(Step::Exit);
}

fn rounds(runtime: &Runtime, live: &Live, count: usize) -> Tally {
    let mut session = RuntimeSession::new(runtime, live);
    for _ in 0..count {
        // A failed call is in the tally; the program goes on.
        let block = session.malloc(SIZE);
        let _ = session.launch(
            LaunchForm::Plain,
            Twin::Plain,
            &kernels::DECODE,
            LaunchShape::default(),
        );
        if let Ok(block) = block {
            let _ = session.free(block, SIZE);
        }
    }
    session.tally
}

fn child(runtimes: &[Runtime], count: usize) -> Report {
    // Nothing has been called here yet: these are the parent's.
    let inherited = entries::of_process(runtimes);
    let (live, mut tally) = (Live::default(), Tally::new());
    for runtime in runtimes {
        tally.add(&rounds(runtime, &live, count));
    }
    report(runtimes, &tally, &live, &inherited)
}

fn report(runtimes: &[Runtime], tally: &Tally, live: &Live, before: &Entries) -> Report {
    let entries = entries::since(entries::of_process(runtimes), before);
    Report::new(
        "late",
        runtimes.iter().all(Runtime::is_fake),
        tally,
        live,
        entries,
    )
}

/// Starts this program anew in the same process, with what it reported so far.
fn run_again(mut report: Report) -> ! {
    report.live_bytes = 0; // The end of the image frees everything.
    let earlier = serde_json::to_string(&report).expect("a report is plain data");
    let failed = Command::new(env::current_exe().expect("the kernel knows our path"))
        .args(
            env::args_os()
                .skip(1)
                .filter(|argument| argument != "--exec"),
        )
        .args(["--earlier", &earlier])
        .exec();
    panic!("cannot run this program again: {failed}");
}
