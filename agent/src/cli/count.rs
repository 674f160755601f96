//! `cudasnoop count`.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use agent_common::{Api, Counters, Effect, Probe};
use clap::Args;
use serde_json::{Value, json};

use super::{record::exit_code, session_args::SessionArgs, units};
use crate::{
    attach::EntryOnly,
    session::{self, InFlight, Totals, Vitals},
    sink::Discard,
};

/// Count CUDA calls in the kernel, exactly and at any rate.
///
/// Nothing passes through a buffer, so nothing can be lost: calls, errors, bytes and time of
/// each function, in a table at the end, or each --interval.
#[derive(Debug, Args)]
#[command(group = super::session_args::target(), after_help = "\
Examples:
  cudasnoop count -- ./program                 how many cudaMalloc, and all the rest
  cudasnoop count -p 4242 --duration 10        the calls of 10 seconds
  cudasnoop count -p 4242 --interval 1         a table of the totals each second")]
pub(super) struct CountArgs {
    /// Print the totals this often
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    interval: Option<Duration>,

    /// One JSON object for each table (docs/count.md)
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    session: SessionArgs,
}

/// Counts.
pub(super) fn run(args: &CountArgs) -> anyhow::Result<ExitCode> {
    let CountArgs {
        interval,
        json,
        session,
    } = args;
    let mut options = session.options();
    options.count_only = true;
    let json = *json;
    let returns = Returns {
        launches: options.launch_returns,
        none: options.entry_only == EntryOnly::Always,
    };
    let mut failure = None;
    let mut show = |vitals: &Vitals| {
        let totals = &vitals.totals;
        let result = write(&mut io::stdout().lock(), totals, &[], json, returns);
        failure = failure.take().or(result.err());
    };
    let observer = interval.map(|period| (period, &mut show as &mut dyn FnMut(&Vitals)));
    let outcome = session::run(&options, |_| Ok(Box::new(Discard)), observer)?;
    if let Some(error) = failure {
        return Err(error.into());
    }
    let mut stdout = io::stdout().lock();
    write(
        &mut stdout,
        &outcome.totals,
        &outcome.in_flight,
        json,
        Returns {
            none: outcome.entries_only,
            ..returns
        },
    )?;
    Ok(exit_code(&outcome))
}

/// Which returns are seen: without, errors, bytes and time are not known.
#[derive(Clone, Copy, Debug)]
struct Returns {
    /// Those of launches, too.
    launches: bool,
    /// Of some process none at all.
    none: bool,
}

impl Returns {
    fn are_seen(self, api: &Api) -> bool {
        let is_probed =
            api.probe != Probe::Entry || (self.launches && api.effect == Effect::Launch);
        is_probed && !self.none
    }
}

/// Whether a call moves or takes bytes.
fn has_bytes(api: &Api) -> bool {
    agent_common::size_factors(api.values).mask != 0
}

fn write(
    output: &mut dyn Write,
    totals: &[Totals],
    in_flight: &[InFlight],
    json: bool,
    returns: Returns,
) -> io::Result<()> {
    let mut rows: Vec<(&'static Api, Counters)> = totals
        .iter()
        .filter_map(|totals| Some((totals.api.api()?, totals.counters)))
        .collect();
    rows.sort_by_key(|(_, counters)| std::cmp::Reverse(counters.made));
    if json {
        let object = as_json(&rows, in_flight, returns);
        writeln!(output, "{object}")?;
    } else {
        as_table(output, &rows, in_flight, returns)?;
    }
    output.flush()
}

fn as_json(rows: &[(&Api, Counters)], in_flight: &[InFlight], returns: Returns) -> Value {
    let calls: Vec<Value> = rows
        .iter()
        .map(|(api, counters)| {
            let known = returns.are_seen(api);
            json!({
                "api": api.name,
                "layer": api.layer.name(),
                "calls": counters.made,
                "folded": counters.folded,
                "errors": known.then_some(counters.errors),
                "bytes": (has_bytes(api) && !returns.none).then_some(counters.bytes),
                "time_ns": known.then_some(counters.duration),
                "lost": counters.lost_pairing,
                "abandoned": counters.abandoned,
            })
        })
        .collect();
    let in_flight: Vec<Value> = in_flight
        .iter()
        .map(|call| {
            json!({
                "api": call.api.api().map(|api| api.name),
                "pid": call.pid,
                "tid": call.tid,
                "age_ns": call.age,
            })
        })
        .collect();
    json!({ "schema": "cudasnoop.count/1", "calls": calls, "in_flight": in_flight })
}

fn as_table(
    output: &mut dyn Write,
    rows: &[(&Api, Counters)],
    in_flight: &[InFlight],
    returns: Returns,
) -> io::Result<()> {
    if rows.is_empty() {
        return writeln!(output, "no CUDA calls");
    }
    let width = rows
        .iter()
        .map(|(api, _)| api.name.len())
        .max()
        .unwrap_or(0)
        .max(8);
    writeln!(
        output,
        "{:<width$} {:>12} {:>8} {:>11} {:>11}",
        "function", "calls", "errors", "bytes", "time"
    )?;
    for (api, counters) in rows {
        let known = returns.are_seen(api);
        let unless_unknown = |text: String| if known { text } else { "-".to_owned() };
        let bytes = if has_bytes(api) && !returns.none {
            analyzer::text::bytes(counters.bytes)
        } else {
            "-".to_owned()
        };
        // Calls that were all folded into runtime calls are part of those.
        let calls = match (counters.made, counters.folded) {
            (0, folded) => format!("(+{folded})"),
            (made, _) => made.to_string(),
        };
        writeln!(
            output,
            "{:<width$} {:>12} {:>8} {:>11} {:>11}",
            api.name,
            calls,
            unless_unknown(counters.errors.to_string()),
            bytes,
            unless_unknown(analyzer::text::duration(counters.duration)),
        )?;
    }
    if rows.iter().any(|(_, counters)| counters.folded > 0) {
        writeln!(
            output,
            "\n(+n): driver calls inside runtime calls, which are counted there"
        )?;
    }
    for call in in_flight {
        writeln!(
            output,
            "{} has not returned after {} (process {}, thread {})",
            call.api.api().map_or("?", |api| api.name),
            analyzer::text::duration(call.age),
            call.pid,
            call.tid
        )?;
    }
    let unpaired: u64 = rows.iter().map(|(_, counters)| counters.lost_pairing).sum();
    if unpaired > 0 {
        writeln!(
            output,
            "{unpaired} calls have no errors, bytes and time: too many threads; raise --threads"
        )?;
    }
    Ok(())
}
