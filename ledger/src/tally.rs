//! How many, and how many bytes.

/// A number of blocks and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// Bytes in all.
    pub bytes: u64,
}

impl Tally {
    /// Adds one of `bytes`.
    pub const fn add(&mut self, bytes: u64) {
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Takes back one of `bytes` that was added.
    pub(crate) const fn remove(&mut self, bytes: u64) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
