//! Processes that stand stopped while a library of theirs gets its probes.

use std::sync::mpsc::Sender;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::session::drain::Inbox;

/// A process that stands stopped; continued when this is dropped, whatever happens.
pub(super) struct Held {
    pub(super) pid: u32,
    pub(super) inbox: Sender<Inbox>,
}

impl Drop for Held {
    fn drop(&mut self) {
        release(self.pid);
        let _ = self.inbox.send(Inbox::Released { pid: self.pid });
    }
}

/// Continues a held process. Only processes that descend from our own command are ever held.
pub(in crate::session) fn release(pid: u32) {
    let continued =
        i32::try_from(pid).map_or(Ok(()), |pid| kill(Pid::from_raw(pid), Signal::SIGCONT));
    if let Err(error) = continued {
        tracing::warn!("continuing process {pid}, which was held: {error}");
    }
}
