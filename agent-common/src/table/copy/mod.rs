//! Copies, of every form.

pub(super) mod driver;
pub(super) mod runtime;
