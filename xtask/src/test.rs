//! `cargo xtask test`: the unit tests, and the end-to-end tests with real eBPF programs.

use std::{env, fmt, process::Command};

use anyhow::{Result, bail};

use crate::{
    build, command, docs, image,
    progress::{say, step},
    setup, toolchain,
};

/// The package whose tests load eBPF programs.
const END_TO_END: &str = "e2e";

/// The package that is tested by itself: its parser of `PromQL` asks for features of libraries that
/// the product goes without, and cargo would build half of the product once more.
const APART: &str = "kubernetes-manifests";

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only what needs neither root nor an eBPF toolchain: no agent, no end-to-end tests.
    #[arg(long)]
    no_ebpf: bool,
    /// Without root, leave the end-to-end tests out and count that as success.
    #[arg(long)]
    no_root: bool,
    /// Run the test programs by sudo, so that the end-to-end tests run too; the build stays yours.
    #[arg(long, conflicts_with_all = ["no_root", "no_ebpf"])]
    sudo: bool,
    /// Passed to the test programs: a part of a test's name, `--nocapture`, ...
    #[arg(last = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let end_to_end = !options.no_ebpf && (options.sudo || command::is_root());
    if !options.no_ebpf {
        build::run(&build::Options::default())?;
    }
    if end_to_end {
        image::pack()?;
    }
    let mut workspace = cargo(options)?;
    workspace.args(["--workspace", "--exclude", "agent-ebpf", "--exclude", APART]);
    if !end_to_end {
        workspace.args(["--exclude", END_TO_END]);
    }
    if options.no_ebpf {
        workspace.args(["--exclude", "agent"]);
    }
    let mut apart = cargo(options)?;
    apart.args(["--package", APART]);
    let mut totals = Totals::default();
    let tests = step("tests", || {
        let run = [&mut workspace, &mut apart].map(|cargo| {
            cargo
                .args(["--no-fail-fast", "--"])
                .args(&options.arguments);
            command::run_by_line(cargo, |line| totals.add(line))
        });
        run.into_iter().collect::<Result<()>>()
    });
    println!("{totals}");
    tests?;

    if options.no_ebpf {
        say("NOT RUN, as asked by --no-ebpf: the tests of `agent` and the end-to-end tests");
        return Ok(());
    }
    step("generated documentation", docs::check)?;
    if !end_to_end {
        let not_run = "NOT RUN: the end-to-end tests (package e2e). They load eBPF programs, which \
                       takes root: `cargo xtask test --sudo` runs them";
        if !options.no_root {
            bail!("{not_run}; `--no-root` accepts that");
        }
        say(not_run);
    }
    Ok(())
}

/// `cargo test`, with what the test programs need.
fn cargo(options: &Options) -> Result<Command> {
    let mut cargo = toolchain::product_cargo("test")?;
    cargo
        .arg("--release")
        .env("CUDASNOOP_PYTHON", setup::python()?)
        .env("CUDASNOOP_CHROMIUM", setup::chromium()?)
        .envs(setup::cluster_tools()?);
    if options.sudo {
        let architecture = env::consts::ARCH.to_uppercase();
        cargo.env(
            format!("CARGO_TARGET_{architecture}_UNKNOWN_LINUX_GNU_RUNNER"),
            "sudo --preserve-env",
        );
    }
    Ok(cargo)
}

/// The sums over the test programs; each ends with a line of its own.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    passed: u32,
    failed: u32,
    ignored: u32,
}

impl Totals {
    /// Counts a line such as `test result: ok. 4 passed; 0 failed; 1 ignored; ...`.
    fn add(&mut self, line: &str) {
        let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|result| result.split_once(". "))
        else {
            return;
        };
        for count in counts.split("; ") {
            let Some((number, what)) = count.split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse::<u32>() else {
                continue;
            };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                // `measured`, `filtered out`: no outcomes of tests.
                _ => {}
            }
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            ignored,
        } = self;
        write!(out, "{passed} passed, {failed} failed")?;
        if *ignored > 0 {
            write!(out, ", {ignored} skipped")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_totals_are_the_sums_of_the_closing_lines() {
        let mut totals = Totals::default();
        for line in [
            "running 5 tests",
            "test a_result ... ok",
            "test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.95s",
            "test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s",
        ] {
            totals.add(line);
        }
        assert_eq!(
            totals,
            Totals {
                passed: 6,
                failed: 3,
                ignored: 1
            }
        );
        assert_eq!(totals.to_string(), "6 passed, 3 failed, 1 skipped");
    }
}
