//! Steps of an engine: events put into a stream again and again, then captures of two streams each.

use std::{thread, time::Duration};

use clap::Parser;
use workloads::{
    entries,
    options::{CommonOptions, Step},
    report::Report,
    runtime::Runtime,
    runtime_session::RuntimeSession,
    tally::{Code, Live},
};

/// Puts events into a stream for a while, and then captures.
#[derive(Clone, Debug, Parser)]
struct Options {
    #[command(flatten)]
    common: CommonOptions,
    /// Steps before the captures.
    #[arg(long, default_value_t = 1500)]
    steps: u32,
    /// Events in a step.
    #[arg(long, default_value_t = 20)]
    events: u32,
    /// Captures after them.
    #[arg(long, default_value_t = 20)]
    captures: u32,
}

/// After each step.
const STEP: Duration = Duration::from_millis(10);
/// After each capture.
const PAUSE: Duration = Duration::from_millis(100);

fn main() {
    let options = Options::parse();
    options.common.wait_at(Step::Load);
    let runtime = Runtime::open(&options.common.cudart);
    options.common.wait_at(Step::Call);
    let live = Live::default();
    let mut session = RuntimeSession::new(&runtime, &live);
    work(&mut session, &options).unwrap_or_else(|code| panic!("a call failed with {code}"));
    Report::new(
        "captures",
        runtime.is_fake(),
        &session.tally,
        &live,
        entries::of_process([&runtime]),
    )
    .print();
    options.common.wait_at(Step::Exit);
}

fn work(session: &mut RuntimeSession<'_>, options: &Options) -> Result<(), Code> {
    let (side, event) = (session.stream()?, session.event()?);
    for _ in 0..options.steps {
        for _ in 0..options.events {
            session.event_record(event, side)?;
        }
        thread::sleep(STEP);
    }
    for _ in 0..options.captures {
        session.capture(|session, stream| {
            session.event_record(event, stream)?;
            session.stream_wait(side, event)?;
            session.event_record(event, side)?;
            session.stream_wait(stream, event)
        })?;
        thread::sleep(PAUSE);
    }
    Ok(())
}
