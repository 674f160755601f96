//! Finding functions in real ELF files and real processes.
//!
//! The files are compiled here with `cc`; what is expected comes from `readelf`, `objdump`
//! and `nm`, not from our own reader. No privileges are needed.

mod damaged;
mod fixture;
mod layouts;
mod library;
mod live;
mod names;
