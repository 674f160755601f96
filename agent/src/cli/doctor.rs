//! `cudasnoop doctor`.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use analyzer::text::Colour;
use anstyle::{AnsiColor, Style};
use clap::Args;
use serde_json::{Value, json};

use crate::{
    doctor::{Check, CheckId, Coverage, Diagnosis, Examined, Fix, Host, State},
    kernel::AttachMode,
};

/// Say whether tracing can work here, what is missing, and the line that helps.
///
/// Asks by trying: creates a map, loads a program, opens files of processes. Attaches nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cudasnoop doctor                the machine, and each visible process that has CUDA loaded
  cudasnoop doctor --pid 4242     one process, in full
  cudasnoop doctor --json         for scripts (docs/doctor.md)

Exit codes: 0 all that is needed is there, warnings or not; 1 something that is needed is missing,
or there is no such process; 2 wrong usage.")]
pub(super) struct DoctorArgs {
    /// Process that is to be traced
    #[arg(short, long, value_name = "PID")]
    pid: Option<u32>,

    /// One JSON object in place of text
    #[arg(long)]
    json: bool,
}

/// Examines.
pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let DoctorArgs { pid, json } = args;
    let diagnosis = Diagnosis::make(*pid)?;
    let mut output = io::stdout().lock();
    if *json {
        writeln!(output, "{}", as_json(&diagnosis))?;
    } else {
        let colour = Colour::of_stdout() == Colour::On;
        Page { output, colour }.diagnosis(&diagnosis)?;
    }
    Ok(if diagnosis.works() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn as_json(diagnosis: &Diagnosis) -> Value {
    let Diagnosis {
        host,
        processes,
        is_about_one: _,
    } = diagnosis;
    let Host { mode, checks, .. } = host;
    json!({
        "schema": "cudasnoop.doctor/1",
        "version": env!("CARGO_PKG_VERSION"),
        "works": diagnosis.works(),
        "release": host.release().to_string(),
        "attach_mode": mode.map(AttachMode::name),
        "checks": checks.iter().map(check).collect::<Vec<_>>(),
        "processes": processes.iter().map(process).collect::<Vec<_>>(),
    })
}

fn check(check: &Check) -> Value {
    let Check {
        id,
        state,
        finding,
        errno,
        fix: Fix { yaml, shell },
    } = check;
    json!({
        "id": id.name(),
        "state": state.name(),
        "finding": finding,
        "errno": errno.map(|errno| format!("{errno:?}")),
        "yaml": yaml,
        "shell": shell,
    })
}

fn process(process: &Examined) -> Value {
    let Examined {
        pid,
        command,
        libraries,
        checks,
    } = process;
    json!({
        "pid": pid,
        "command": command,
        "libraries": libraries.iter().map(library).collect::<Vec<_>>(),
        "checks": checks.iter().map(check).collect::<Vec<_>>(),
    })
}

fn library(library: &Coverage) -> Value {
    let Coverage {
        path,
        layers,
        probed,
        costly,
        refused,
        missing,
    } = library;
    json!({
        "path": path.to_string_lossy(),
        "layers": layers.iter().map(|layer| layer.name()).collect::<Vec<_>>(),
        "probed": probed,
        "costly": costly,
        "refused": refused,
        "missing": missing,
    })
}

/// Characters in a line; lines to copy are never broken.
const WIDTH: usize = 80;
/// Where the words begin, after the state.
const INDENT: usize = 11;

/// The diagnosis as text.
struct Page<W> {
    output: W,
    colour: bool,
}

impl<W: Write> Page<W> {
    fn diagnosis(&mut self, diagnosis: &Diagnosis) -> io::Result<()> {
        let Diagnosis {
            host,
            processes,
            is_about_one,
        } = diagnosis;
        self.heading("This machine, and what we may do on it")?;
        for check in &host.checks {
            self.check(check)?;
        }
        for process in processes {
            writeln!(self.output)?;
            self.process(process, *is_about_one)?;
        }
        writeln!(self.output)?;
        self.verdict(diagnosis)
    }

    /// In full, or what is worth a look.
    fn process(&mut self, process: &Examined, in_full: bool) -> io::Result<()> {
        let Examined {
            pid,
            command,
            libraries,
            checks,
        } = process;
        let title = match command.as_str() {
            "" => format!("Process {pid}"),
            command => format!("Process {pid}: {command}"),
        };
        let title: String = title.chars().take(WIDTH).collect();
        self.heading(&title)?;
        for library in libraries {
            self.library(library)?;
        }
        for check in checks {
            // That file is refused for want of a capability, which was said above.
            let is_news = check.state != State::Ok && check.id != CheckId::ProcessMapFiles;
            if in_full || is_news {
                self.check(check)?;
            }
        }
        Ok(())
    }

    fn library(&mut self, library: &Coverage) -> io::Result<()> {
        let Coverage {
            path,
            layers,
            probed,
            costly,
            refused,
            missing,
        } = library;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let layers: Vec<_> = layers.iter().map(|layer| layer.name()).collect();
        let mut text = format!("{name} ({}): {probed} functions probed", layers.join(", "));
        for (count, what) in [(costly, "at a higher cost"), (refused, "refused")] {
            if *count > 0 {
                text = format!("{text}, {count} {what}");
            }
        }
        text = format!("{text}, {missing} of the table not in this version");
        self.words("", Style::new(), &text)
    }

    fn check(&mut self, check: &Check) -> io::Result<()> {
        let Check {
            id: _,
            state,
            finding,
            errno: _,
            fix: Fix { yaml, shell },
        } = check;
        let style = match state {
            State::Ok => AnsiColor::Green.on_default(),
            State::Warning => AnsiColor::Yellow.on_default(),
            State::Missing => AnsiColor::Red.on_default().bold(),
        };
        self.words(state.name(), style, finding)?;
        for (mark, line) in [("", yaml), ("$ ", shell)] {
            if let Some(line) = line {
                let style = self.style(AnsiColor::Cyan.on_default());
                writeln!(self.output, "{:INDENT$}{style}{mark}{line}{style:#}", "")?;
            }
        }
        Ok(())
    }

    fn verdict(&mut self, diagnosis: &Diagnosis) -> io::Result<()> {
        let warnings = match diagnosis.count(State::Warning) {
            0 => String::new(),
            1 => ", with 1 warning".to_owned(),
            several => format!(", with {several} warnings"),
        };
        let verdict = match diagnosis.count(State::Missing) {
            0 => format!("Tracing can work here{warnings}."),
            1 => "Tracing cannot work here: 1 thing that it needs is missing.".to_owned(),
            several => {
                format!("Tracing cannot work here: {several} things that it needs are missing.")
            }
        };
        self.heading(&verdict)
    }

    fn heading(&mut self, text: &str) -> io::Result<()> {
        let style = self.style(Style::new().bold());
        let text = harmless(text);
        writeln!(self.output, "{style}{text}{style:#}")
    }

    /// A state, and words beside it, broken between words.
    fn words(&mut self, state: &str, style: Style, text: &str) -> io::Result<()> {
        let style = self.style(style);
        let mut lines = wrapped(&harmless(text), WIDTH - INDENT).into_iter();
        let first = lines.next().unwrap_or_default();
        writeln!(self.output, "  {style}{state:<7}{style:#}  {first}")?;
        for line in lines {
            writeln!(self.output, "{:INDENT$}{line}", "")?;
        }
        Ok(())
    }

    fn style(&self, style: Style) -> Style {
        if self.colour { style } else { Style::new() }
    }
}

/// Lines of at most `width` characters, a longer word alone in its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A process chooses its title and the names of its files: no control characters of theirs reach
/// a terminal.
fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a muchtoolong b", 5), ["a", "muchtoolong", "b"]);
        assert_eq!(wrapped("", 5), [""]);
    }

    #[test]
    fn control_characters_are_shown_as_such() {
        assert_eq!(
            harmless("a\x1b[31m\nb\u{9b}c"),
            "a\u{fffd}[31m\u{fffd}b\u{fffd}c"
        );
    }
}
