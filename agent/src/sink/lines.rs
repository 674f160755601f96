//! Events as lines on stdout: the newcomer's first look.

use std::{
    collections::HashMap,
    fmt::Write as _,
    io::{self, IsTerminal as _, Write},
};

use agent_common::{Api, ApiId, Family, Twin, flags};
use anstyle::{AnsiColor, Style};
use trace::{Event, Fact, Kind, fact};
use wildmatch::WildMatch;

use super::{
    Sink, SinkError, Summary,
    arguments::{arguments, outcome},
    json::object,
};

/// Which events become lines.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Families; empty for all. More may be traced, to understand these.
    pub families: Vec<Family>,
    /// Function names, with `*` and `?`; empty for all.
    pub apis: Vec<WildMatch>,
    /// Smallest size, bytes; events without a size are left out then.
    pub min_size: Option<u64>,
    /// Only calls that failed.
    pub errors: bool,
}

impl Filter {
    /// Whether the event passes. Facts about processes always do.
    fn passes(&self, event: &Event) -> bool {
        let Some(api) = event.api.and_then(ApiId::api) else {
            return false;
        };
        let Self {
            families,
            apis,
            min_size,
            errors,
        } = self;
        if !families.is_empty() && !families.contains(&api.family) {
            return false;
        }
        let name_fits = || {
            apis.is_empty()
                || apis.iter().any(|pattern| {
                    let mut names = api.symbols.iter().chain([&api.name]);
                    names.any(|name| pattern.matches(name))
                })
        };
        let size_fits = || {
            min_size.is_none_or(|least| event.size.is_some_and(|size| size.unsigned_abs() >= least))
        };
        let failed = || event.result.is_some_and(|code| code != 0) || event.kind == Kind::Abandoned;
        name_fits() && size_fits() && (!*errors || failed())
    }
}

/// Columns that a kernel's name gets at most.
const KERNEL_WIDTH: usize = 60;

/// Writes lines.
#[derive(Debug)]
pub struct Lines {
    out: io::BufWriter<io::Stdout>,
    filter: Filter,
    json: bool,
    colour: bool,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, ns.
    wall_offset: i128,
    kernels: HashMap<u32, String>,
    callers: HashMap<u32, String>,
    events: u64,
    line: String,
}

impl Lines {
    /// To stdout; coloured on a terminal, unless `NO_COLOR` is set.
    pub fn new(filter: Filter, json: bool, clock: fact::Clock) -> Self {
        let stdout = io::stdout();
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            colour: stdout.is_terminal() && !no_colour && !json,
            out: io::BufWriter::new(stdout),
            filter,
            json,
            wall_offset: i128::from(clock.realtime) - i128::from(clock.monotonic),
            kernels: HashMap::new(),
            callers: HashMap::new(),
            events: 0,
            line: String::new(),
        }
    }

    fn learn(&mut self, text: &str) {
        match Fact::parse(text) {
            Some(Fact::Kernel(fact::Kernel {
                id,
                name: Some(name),
                ..
            })) => {
                let short = analyzer::demangle::short(&name, KERNEL_WIDTH);
                self.kernels.insert(id, harmless(&short));
            }
            Some(Fact::Caller(fact::Caller {
                id,
                module: Some(module),
            })) => {
                self.callers.insert(id, module);
            }
            _ => {}
        }
    }

    fn text(&mut self, event: &Event, api: &Api) {
        self.line.clear();
        let style = |style: Style| if self.colour { style } else { Style::new() };
        let dim = style(Style::new().dimmed());
        let name_style = style(AnsiColor::Cyan.on_default());
        let bad = style(AnsiColor::Red.on_default().bold());
        let time = self.wall_time(event.timestamp);
        let line = &mut self.line;
        // Writing to a String cannot fail.
        let _ = write!(line, "{dim}{time}{dim:#} ");
        let _ = write!(line, "{dim}{:>7}/{:<7}{dim:#} ", event.pid, event.tid);
        let symbol = if event.flags & flags::PER_THREAD_STREAM == 0 {
            api.name
        } else {
            api.symbols
                .iter()
                .find(|symbol| Twin::of_symbol(symbol) == Twin::PerThread)
                .unwrap_or(&api.name)
        };
        let _ = write!(line, "{name_style}{symbol}{name_style:#}");
        let kernel = event.kernel.and_then(|id| self.kernels.get(&id));
        arguments(line, event, api, kernel.map(String::as_str));
        match event.kind {
            Kind::Begin => line.push_str(" ..."),
            Kind::Abandoned => {
                let _ = write!(line, " {bad}never returned{bad:#}");
            }
            Kind::InFlight => {
                let _ = write!(line, " {bad}still inside{bad:#}");
            }
            Kind::Call | Kind::Fact => {}
        }
        match event.result {
            Some(0) => outcome(line, event, api),
            Some(code) => {
                let name = analyzer::cuda_error::name(api.layer, code).unwrap_or("unknown error");
                let _ = write!(line, " = {bad}{code} {name}{bad:#}");
            }
            None => {}
        }
        if let Some(duration) = event.duration {
            let _ = write!(line, "  {dim}{}{dim:#}", duration_text(duration));
        }
        line.push('\n');
    }
}

impl Lines {
    /// UTC, to the microsecond.
    fn wall_time(&self, timestamp: u64) -> String {
        let ns = i128::from(timestamp) + self.wall_offset;
        let in_day = ns.rem_euclid(86_400_000_000_000);
        let micros = in_day / 1000;
        let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
        format!(
            "{:02}:{:02}:{:02}.{micros:06}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        )
    }
}

impl Sink for Lines {
    fn event(&mut self, event: &Event) -> Result<(), SinkError> {
        if let Some(text) = &event.text {
            self.learn(text);
            return Ok(());
        }
        if !self.filter.passes(event) {
            return Ok(());
        }
        let Some(api) = event.api.and_then(ApiId::api) else {
            return Ok(());
        };
        self.events += 1;
        if self.json {
            let kernel = event.kernel.and_then(|id| self.kernels.get(&id));
            let caller = event.caller.and_then(|id| self.callers.get(&id));
            let object = object(
                event,
                kernel.map(String::as_str),
                caller.map(String::as_str),
            );
            self.line.clear();
            let _ = writeln!(self.line, "{object}");
        } else {
            self.text(event, api);
        }
        self.out
            .write_all(self.line.as_bytes())
            .map_err(SinkError::Stdout)
    }

    fn tick(&mut self) -> Result<(), SinkError> {
        self.out.flush().map_err(SinkError::Stdout)
    }

    fn finish(mut self: Box<Self>) -> Result<Summary, SinkError> {
        self.out.flush().map_err(SinkError::Stdout)?;
        Ok(Summary {
            events: self.events,
            bytes: 0,
        })
    }
}

/// A name that the traced program chose, without what a terminal would obey.
fn harmless(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect()
}

/// `85.2 µs`.
fn duration_text(ns: u64) -> String {
    analyzer::text::duration(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters() {
        let id = ApiId::by_name("cudaMalloc").expect("in the table");
        let event = Event {
            api: Some(id),
            size: Some(4096),
            result: Some(2),
            ..Event::default()
        };
        let passes = |filter: Filter| filter.passes(&event);
        assert!(passes(Filter::default()));
        assert!(passes(Filter {
            min_size: Some(4096),
            errors: true,
            ..Filter::default()
        }));
        assert!(!passes(Filter {
            families: vec![Family::Launch],
            ..Filter::default()
        }));
        assert!(!passes(Filter {
            min_size: Some(4097),
            ..Filter::default()
        }));
        assert!(!passes(Filter {
            apis: vec![WildMatch::new("cudaFree")],
            ..Filter::default()
        }));
    }
}
