//! `cudasnoop probes`.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use agent_common::{APIS, Api, Probe};
use clap::Args;
use serde_json::json;

use super::check;

/// List the functions that can be traced.
#[derive(Debug, Args)]
#[command(after_help = "\
Which of them a library has depends on its CUDA version; a recording says which it lacked.")]
pub(super) struct ProbesArgs {
    /// What of a process's libraries, or of one file, is probed, and what that leaves unseen
    #[arg(long, value_name = "PID|FILE")]
    check: Option<String>,

    /// Print JSON in place of text
    #[arg(long)]
    json: bool,
}

/// Lists.
pub(super) fn run(args: &ProbesArgs) -> anyhow::Result<ExitCode> {
    let ProbesArgs { check, json } = args;
    let mut output = io::stdout().lock();
    if let Some(target) = check {
        check::run(target, *json, &mut output)?;
    } else if *json {
        let rows: Vec<_> = APIS.iter().map(as_json).collect();
        writeln!(output, "{}", json!(rows))?;
    } else {
        as_table(&mut output)?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Which moments are probed, in words.
fn moments(probe: Probe) -> &'static str {
    match probe {
        Probe::Entry => "entry",
        Probe::Return => "return",
        Probe::EntryAndReturn => "entry, return",
    }
}

fn as_json(api: &Api) -> serde_json::Value {
    json!({
        "api": api.name,
        "symbols": api.symbols,
        "layer": api.layer.name(),
        "family": api.family.name(),
        "probe": moments(api.probe),
        "since": (api.since != 0).then(|| version(api.since)),
        "doc": api.doc,
    })
}

fn as_table(output: &mut dyn Write) -> io::Result<()> {
    let mut family = None;
    for api in APIS {
        let group = APIS
            .iter()
            .filter(|other| (other.layer, other.family) == (api.layer, api.family));
        let width = group.map(|other| other.name.len()).max().unwrap_or(0);
        if family != Some((api.layer, api.family)) {
            let gap = if family.is_some() { "\n" } else { "" };
            writeln!(output, "{gap}{} {}", api.layer.name(), api.family.name())?;
            family = Some((api.layer, api.family));
        }
        let twin = if api.symbols.len() > 1 { "+" } else { " " };
        let since = if api.since == 0 {
            String::new()
        } else {
            format!(" (CUDA {})", version(api.since))
        };
        writeln!(output, "  {:<width$}{twin} {}{since}", api.name, api.doc)?;
    }
    writeln!(
        output,
        "\n+ and its per-thread-default-stream twin (_ptsz, _ptds)"
    )
}

/// `12.8` of 12080.
fn version(since: u16) -> String {
    format!("{}.{}", since / 1000, since % 1000 / 10)
}
