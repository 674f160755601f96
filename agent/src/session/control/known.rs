//! What executables were seen to load: the next process that runs one gets its probes before it
//! maps a thing.

use std::collections::{HashMap, VecDeque};

use crate::discover::{FileIdentity, Found};

/// Executables that are remembered; the one that came first is forgotten first.
const LIMIT: usize = 256;

/// CUDA libraries by executable. They keep the libraries' files open.
#[derive(Debug, Default)]
pub(super) struct Executables {
    libraries: HashMap<FileIdentity, Vec<Found>>,
    order: VecDeque<FileIdentity>,
}

impl Executables {
    /// `executable` was seen to map these.
    pub(super) fn loads(&mut self, executable: FileIdentity, found: &[Found]) {
        if !self.libraries.contains_key(&executable) {
            if self.order.len() >= LIMIT
                && let Some(first) = self.order.pop_front()
            {
                self.libraries.remove(&first);
            }
            self.order.push_back(executable);
        }
        let expected = found.iter().cloned().map(Found::not_mapped_yet);
        self.libraries.insert(executable, expected.collect());
    }

    /// What `executable` is expected to map.
    pub(super) fn expected(&self, executable: FileIdentity) -> &[Found] {
        self.libraries
            .get(&executable)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }
}
