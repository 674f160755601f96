//! How many files may be open: each traced process needs a descriptor for every link of its own.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Allows as many open files as an unprivileged process may allow itself.
pub fn allow_many() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft < hard {
            setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
        }
        Ok(())
    });
    if let Err(error) = raised {
        tracing::debug!("the limit of open files stays: {error}");
    }
}
