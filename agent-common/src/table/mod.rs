//! The probe table: the single source for attaching, decoding, `cudasnoop probes`,
//! docs/probes.md, coverage and the completeness tests.
//!
//! Names, signatures and twins are those of the CUDA 11.7 to 13.5 headers and libraries;
//! a symbol that a library lacks is normal and is listed as missing, never an error.

mod copy;
mod device;
mod graph;
mod host;
mod ipc;
mod launch;
mod memory;
mod module;
mod pool;
mod set;
mod sync;
mod torch;
mod vmm;

use crate::{
    api::{Api, ApiId, Effect, Family, Layer, Probe, Shape},
    value::Value,
};

/// Capacity of the kernel's per-function arrays; [`APIS`] stays below it.
pub const MAX_APIS: u32 = 512;

/// The row of the per-function arrays that no function has: there stands what concerns
/// processes rather than calls.
pub const TASKS: ApiId = ApiId(511);

const _: () = assert!(TASKS.0 as u32 == MAX_APIS - 1);

/// Every traced function.
pub static APIS: &[Api] = &ROWS;

/// The rows, by subject.
const SUBJECTS: [&[Api]; 14] = [
    &memory::ROWS,
    &host::ROWS,
    &pool::ROWS,
    &vmm::ROWS,
    &ipc::ROWS,
    &device::ROWS,
    &launch::ROWS,
    &graph::ROWS,
    &copy::runtime::ROWS,
    &copy::driver::ROWS,
    &set::ROWS,
    &sync::ROWS,
    &module::ROWS,
    &torch::ROWS,
];

const fn count() -> usize {
    let (mut rows, mut subject) = (0, 0);
    while subject < SUBJECTS.len() {
        rows += SUBJECTS[subject].len();
        subject += 1;
    }
    rows
}

static ROWS: [Api; count()] = {
    let mut rows = [torch::ROWS[0]; count()];
    let (mut next, mut subject) = (0, 0);
    while subject < SUBJECTS.len() {
        let mut row = 0;
        while row < SUBJECTS[subject].len() {
            rows[next] = SUBJECTS[subject][row];
            next += 1;
            row += 1;
        }
        subject += 1;
    }
    rows
};

const _: () = assert!(count() < TASKS.0 as usize);

const fn row(
    layer: Layer,
    symbols: &'static [&'static str],
    family: Family,
    effect: Effect,
    values: &'static [Value],
) -> Api {
    Api {
        name: symbols[0],
        symbols,
        layer,
        family,
        effect,
        shape: Shape::Values,
        values,
        values_before_13: None,
        probe: Probe::Return,
        core: false,
        since: 0,
        doc: "",
    }
}

const fn runtime(
    symbols: &'static [&'static str],
    family: Family,
    effect: Effect,
    values: &'static [Value],
) -> Api {
    row(Layer::Runtime, symbols, family, effect, values)
}

const fn driver(
    symbols: &'static [&'static str],
    family: Family,
    effect: Effect,
    values: &'static [Value],
) -> Api {
    row(Layer::Driver, symbols, family, effect, values)
}

/// A function and its twin for per-thread default streams: the asynchronous ones end so.
macro_rules! ptsz {
    ($name:literal) => {
        &[$name, concat!($name, "_ptsz")]
    };
}
use ptsz;

/// Likewise the synchronous ones.
macro_rules! ptds {
    ($name:literal) => {
        &[$name, concat!($name, "_ptds")]
    };
}
use ptds;

impl Api {
    const fn shape(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }

    const fn probe(self, probe: Probe) -> Self {
        Self { probe, ..self }
    }

    const fn before_13(self, values: &'static [Value]) -> Self {
        Self {
            values_before_13: Some(values),
            ..self
        }
    }

    const fn core(self) -> Self {
        Self { core: true, ..self }
    }

    const fn since(self, since: u16) -> Self {
        Self { since, ..self }
    }

    const fn doc(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{
        Twin,
        value::{Field, MAX_VALUES},
    };

    #[test]
    fn names_and_symbols_are_unique_and_documented() {
        let mut names = HashSet::new();
        let mut symbols = HashSet::new();
        for api in APIS {
            assert!(names.insert(api.name), "{} twice", api.name);
            assert!(
                !api.doc.is_empty() && !api.doc.ends_with('.'),
                "{}: doc line",
                api.name
            );
            for symbol in api.symbols {
                assert!(symbols.insert(symbol), "{symbol} twice");
            }
        }
        assert!(APIS.len() < usize::try_from(MAX_APIS).expect("small"));
    }

    #[test]
    fn only_the_last_symbol_may_be_a_twin() {
        for api in APIS {
            let plain = api
                .symbols
                .iter()
                .filter(|s| Twin::of_symbol(s) == Twin::Plain)
                .count();
            assert_eq!(plain, 1, "{}", api.name);
            assert_eq!(Twin::of_symbol(api.symbols[0]), Twin::Plain, "{}", api.name);
        }
    }

    #[test]
    fn the_probed_symbol_is_never_the_jumping_one() {
        assert!(
            APIS.iter()
                .flat_map(|api| api.symbols)
                .all(|s| *s != "__cudaLaunchKernel")
        );
    }

    #[test]
    fn values_fit_their_records() {
        for api in APIS {
            for values in [Some(api.values), api.values_before_13]
                .into_iter()
                .flatten()
            {
                assert!(values.len() <= MAX_VALUES, "{}", api.name);
                let addressed = values.iter().filter(|v| v.field == Field::Address);
                assert!(addressed.count() <= 1, "{}: two addresses", api.name);
            }
            let batch = matches!(api.shape, Shape::CopyBatch | Shape::CopyBatch3D);
            if batch {
                assert_eq!(api.values[0].field, Field::Size, "{}", api.name);
                assert_eq!(api.values[1].field, Field::Count, "{}", api.name);
            }
        }
    }

    #[test]
    fn what_is_taken_is_known_at_return_and_what_is_given_back_at_entry() {
        for api in APIS {
            for value in api.values {
                if api.probe == Probe::EntryAndReturn {
                    assert!(!value.place.kind.is_out(), "{}", api.name);
                }
                if api.probe == Probe::Entry {
                    assert!(!value.place.kind.is_out(), "{}", api.name);
                }
            }
        }
    }
}
