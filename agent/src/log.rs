//! The log: lines to stderr, which are held back while a screen is up that they would destroy.

use std::{
    collections::VecDeque,
    io::{self, IsTerminal as _, Write},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Most lines that are held back: the last ones.
const MOST: usize = 1000;

/// `None` while nothing is held back, as always where nothing has a screen.
static HELD: Mutex<Option<VecDeque<String>>> = Mutex::new(None);

/// Starts the log. Escape sequences would not survive being held back: `plain` leaves them out.
pub(crate) fn start(plain: bool) {
    // What aya says of each relocation helps nobody.
    let wanted = std::env::var("CUDASNOOP_LOG").unwrap_or_else(|_| "warn,agent=info".to_owned());
    let filter = tracing_subscriber::EnvFilter::new(format!("{wanted},aya=warn,aya_obj=warn"));
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Lines)
        .with_ansi(io::stderr().is_terminal() && !no_colour && !plain)
        .with_target(false)
        .without_time()
        .init();
}

/// Takes lines, each whole.
struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match &mut *held() {
            None => io::stderr().write_all(line)?,
            Some(lines) => {
                if lines.len() == MOST {
                    lines.pop_front();
                }
                lines.push_back(String::from_utf8_lossy(line).into_owned());
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn held() -> MutexGuard<'static, Option<VecDeque<String>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds lines back while it lives; then they are written.
#[cfg(feature = "tui")]
#[derive(Debug)]
pub(crate) struct Hold {
    lines: &'static Mutex<Option<VecDeque<String>>>,
}

#[cfg(feature = "tui")]
impl Hold {
    /// Begins.
    pub(crate) fn begin() -> Self {
        held().get_or_insert_default();
        Self { lines: &HELD }
    }

    /// The last warning, or error.
    pub(crate) fn last_warning(&self) -> Option<String> {
        let held = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = held.as_ref()?.iter().rev().map(|line| line.trim());
        let mut warnings =
            lines.filter(|line| line.starts_with("WARN") || line.starts_with("ERROR"));
        warnings.next().map(str::to_owned)
    }
}

#[cfg(feature = "tui")]
impl Drop for Hold {
    fn drop(&mut self) {
        let lines = held().take().unwrap_or_default();
        let mut stderr = io::stderr().lock();
        for line in lines {
            // Nobody is left to tell.
            let _ = stderr.write_all(line.as_bytes());
        }
    }
}
