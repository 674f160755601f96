//! Progress lines on stderr, each with the time since the start.

use std::{
    fmt::Display,
    sync::LazyLock,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Prints one progress line.
pub(crate) fn say(line: impl Display) {
    let elapsed = START.elapsed().as_secs_f64();
    eprintln!("[{elapsed:6.1}s] {line}");
}

/// Announces `name`, does `work` and says how long it took.
pub(crate) fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    say(format_args!("{name} ..."));
    let begin = Instant::now();
    let value = work().with_context(|| name.to_owned())?;
    say(format_args!("{name}: done in {}", seconds(begin.elapsed())));
    Ok(value)
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
