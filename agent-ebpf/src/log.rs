//! The programs' own debug lines: aya-log behind feature `log`, else nothing at all.

/// A debug line in the agent's log (`--ebpf-log`).
#[cfg(feature = "log")]
macro_rules! debug {
    ($($arg:tt)*) => { aya_log_ebpf::debug!($($arg)*) };
}

/// Compiled out.
#[cfg(not(feature = "log"))]
macro_rules! debug {
    ($ctx:expr, $($arg:tt)*) => {{
        let _ = $ctx;
    }};
}

pub(crate) use debug;
