//! What the kernel counts for each function, per CPU.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Counters of one function. Each only grows.
///
/// For every function `made = reported + lost_ring + lost_pairing + abandoned + in flight`:
/// the last term is what the pairing map holds, read when the others are.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Counters {
    /// Calls entered, folded ones left out.
    pub made: u64,
    /// Driver calls that were folded into the runtime call that made them.
    pub folded: u64,
    /// Calls whose record reached the ring (with no ring in use: calls that returned).
    pub reported: u64,
    /// Calls whose record found the ring full, or for hot families half full.
    pub lost_ring: u64,
    /// Calls that found no place in the pairing map, or too deep a nesting.
    pub lost_pairing: u64,
    /// Calls that never returned: their thread died or jumped out. Their records count in
    /// `abandoned`, not in `reported`.
    pub abandoned: u64,
    /// Extra records (a free's entry, a kernel's name) that found the ring full.
    pub lost_extra: u64,
    /// Calls that returned an error. Unknown (0) for functions probed at entry only.
    pub errors: u64,
    /// Bytes that successful calls allocated or copied.
    pub bytes: u64,
    /// ns spent in calls that returned.
    pub duration: u64,
}

impl Counters {
    /// Adds another CPU's share.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        // Exhaustive: a new counter must be added here.
        let Self {
            made,
            folded,
            reported,
            lost_ring,
            lost_pairing,
            abandoned,
            lost_extra,
            errors,
            bytes,
            duration,
        } = other;
        Self {
            made: self.made.wrapping_add(made),
            folded: self.folded.wrapping_add(folded),
            reported: self.reported.wrapping_add(reported),
            lost_ring: self.lost_ring.wrapping_add(lost_ring),
            lost_pairing: self.lost_pairing.wrapping_add(lost_pairing),
            abandoned: self.abandoned.wrapping_add(abandoned),
            lost_extra: self.lost_extra.wrapping_add(lost_extra),
            errors: self.errors.wrapping_add(errors),
            bytes: self.bytes.wrapping_add(bytes),
            duration: self.duration.wrapping_add(duration),
        }
    }
}
