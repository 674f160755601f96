//! The recording as a file: what is written is read, whatever happens to it in between.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod errors;
mod facts;
mod format;
mod hostile;
mod round_trip;
mod samples;
mod truncation;
