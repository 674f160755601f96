//! All probes off at once, and on again.

use std::time::Instant;

use aya::maps::{Array, MapData};

use super::{Controller, clock};
use crate::{
    attach::Links,
    discover::{Process, Seen},
    kernel::AttachMode,
};

/// Whether probes are on.
pub(super) struct Switch {
    /// Odd while the programs are silent.
    silences: Array<MapData, u32>,
    count: u32,
    /// When they were switched off.
    off_since: Option<u64>,
}

impl Switch {
    pub(super) fn new(silences: Array<MapData, u32>) -> Self {
        Self {
            silences,
            count: 0,
            off_since: None,
        }
    }

    pub(super) fn is_off(&self) -> bool {
        self.off_since.is_some()
    }

    /// Makes the programs silent, or lets them speak again.
    fn turn(&mut self) {
        self.count = self.count.wrapping_add(1);
        if let Err(error) = self.silences.set(0, &self.count, 0) {
            tracing::error!("telling the eBPF programs to be silent, or not to be: {error}");
        }
    }
}

impl Controller {
    /// Probes off, or on; nothing where they are.
    pub(super) fn switch(&mut self, off: bool) {
        match self.switch.off_since {
            None if off => self.switch_off(),
            Some(since) if !off => {
                self.switch.off_since = None;
                self.switch_on(since);
            }
            None | Some(_) => {}
        }
    }

    fn switch_off(&mut self) {
        let begin = Instant::now();
        self.switch.turn();
        self.close_window();
        self.switch.off_since = Some(clock::monotonic());
        if self.mode == AttachMode::Single {
            tracing::warn!(
                "all probes are silent; taking single uprobes off takes about 0.1 s each"
            );
        }
        let links = self.take_links();
        // Nobody sees now who begins to use CUDA.
        for process in self.processes.values_mut() {
            process.is_idle = false;
        }
        let files = links.len();
        Links::detach_all(links);
        tracing::warn!(
            "all probes are off: {files} files in {} ms; the same signal puts them back",
            begin.elapsed().as_millis()
        );
    }

    fn switch_on(&mut self, since: u64) {
        self.switch.turn();
        self.forget_time_off();
        let pids: Vec<u32> = self.processes.keys().copied().collect();
        for pid in pids {
            let Ok(process) = Process::open(pid) else {
                continue;
            };
            if let Some(traced) = self.processes.get_mut(&pid) {
                traced.seen = Seen::default();
                traced.found.clear();
            }
            self.watch_process(&process);
            match self.look(pid, None) {
                Ok(true) => self.gap(pid, "probes were switched off", since),
                Ok(false) => {}
                Err(error) => tracing::warn!("process {pid}: {error}"),
            }
        }
        tracing::warn!("all probes are on again");
    }
}
