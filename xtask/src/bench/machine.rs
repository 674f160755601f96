//! The machine that the numbers are from, and its processors.

use std::{fs, process::Command, thread};

use anyhow::{Context as _, Result};

use crate::command;

/// One line that names the machine, the day and what else it was doing.
pub(super) fn description() -> Result<String> {
    let read = |path: &str| fs::read_to_string(path).with_context(|| format!("reading {path}"));
    let cpuinfo = read("/proc/cpuinfo")?;
    let model = value(&cpuinfo, "model name").unwrap_or("an unnamed processor");
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease")?;
    let flags = value(&cpuinfo, "flags").unwrap_or_default();
    let kind = if flags.split_whitespace().any(|flag| flag == "hypervisor") {
        "a virtual machine"
    } else {
        "no virtual machine"
    };
    let day = command::output(Command::new("date").args(["--utc", "+%F"]))?;
    let load = read("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or_default();
    Ok(format!(
        "{model}, {cores} cores, {kind}, Linux {}, {}; load average before: {load}",
        kernel.trim_end(),
        day.trim_end()
    ))
}

/// The value of the first line `name : value`.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim_end() == name)?;
    Some(value.trim())
}

/// The processors that a measurement takes: the program and the tool that watches it have one
/// each, so that the tool has exactly one core and takes none from the program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Processors {
    pub(super) program: u32,
    pub(super) tool: u32,
}

impl Processors {
    /// Two of those that this process may use, of different cores where there are such.
    pub(super) fn choose() -> Result<Self> {
        let path = "/proc/self/status";
        let status = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
        let allowed = value(&status, "Cpus_allowed_list")
            .and_then(processors)
            .with_context(|| format!("{path} lists no processors"))?;
        let program = *allowed.first().context("no processor may be used")?;
        let path = format!("/sys/devices/system/cpu/cpu{program}/topology/thread_siblings_list");
        let same_core = fs::read_to_string(path)
            .ok()
            .and_then(|list| processors(list.trim()));
        let same_core = same_core.unwrap_or_default();
        let tool = allowed
            .iter()
            .find(|number| **number != program && !same_core.contains(number))
            .or_else(|| allowed.get(1))
            .context("a bench takes two processors: one for the program, one for its observer")?;
        Ok(Self {
            program,
            tool: *tool,
        })
    }
}

/// The numbers in a list like `0,2-4`.
fn processors(list: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        numbers.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(processors("0,2-4,9"), Some(vec![0, 2, 3, 4, 9]));
        assert_eq!(processors("all"), None);
    }

    #[test]
    fn a_value_is_found_by_its_name() {
        let text = "processor\t: 0\nmodel name\t: A CPU @ 2.50GHz\nmodel name\t: another\n";
        assert_eq!(value(text, "model name"), Some("A CPU @ 2.50GHz"));
        assert_eq!(value(text, "flags"), None);
    }
}
