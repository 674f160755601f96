//! Attaching probes to files, and taking them off.

mod links;
mod sites;

pub use links::{AttachError, Detacher, Links, Scope};
pub use sites::{Placed, SiteError, Sites};
