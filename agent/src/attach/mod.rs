//! Attaching probes to files, and taking them off.

mod links;
mod returns;
mod sites;

pub use links::{AttachError, Detacher, Links, Scope};
pub use returns::{EntryOnly, NoReturns};
pub use sites::{Placed, SiteError, Sites};
