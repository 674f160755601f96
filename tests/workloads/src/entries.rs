//! What the fake libraries themselves counted, each function at its entry: the second truth,
//! which includes the driver calls that the runtime makes.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{CStr, c_void},
    slice, str,
};

use fake_cuda_core::call::Visit;

use crate::{library::Library, runtime::Runtime};

/// Entries by exported symbol.
pub type Entries = BTreeMap<String, u64>;

type Visitor = unsafe extern "C" fn(Visit, *mut c_void);

/// Reads the counters of a fake library; nothing where the library is none or counts nothing.
fn read(library: &Library, function: &CStr) -> Entries {
    let mut entries = Entries::new();
    if let Some(symbol) = library.find(function) {
        // SAFETY: the fakes export their counters under this name with this signature, and the
        // context outlives the call.
        unsafe {
            let visitor: Visitor = std::mem::transmute(symbol);
            visitor(collect, (&raw mut entries).cast());
        }
    }
    entries.retain(|_, count| *count > 0);
    entries
}

/// All counters of this process: those of its runtimes, and the driver's if it is loaded.
///
/// Two runtimes may be one library, opened under two names: it counts once.
pub fn of_process<'a>(runtimes: impl IntoIterator<Item = &'a Runtime>) -> Entries {
    let mut entries = Library::loaded(c"libcuda.so.1")
        .map(|driver| read(&driver, c"fake_cuda_entries"))
        .unwrap_or_default();
    let libraries: BTreeSet<Library> = runtimes.into_iter().map(Runtime::library).collect();
    for library in libraries {
        for (symbol, count) in read(&library, c"fake_cudart_entries") {
            *entries.entry(symbol).or_default() += count;
        }
    }
    entries
}

extern "C" fn collect(context: *mut c_void, name: *const u8, length: usize, count: u64) {
    // SAFETY: `context` is the map that `read` passed, which nobody else uses meanwhile; the
    // name is a string constant of the library.
    let (entries, name) = unsafe {
        (
            &mut *context.cast::<Entries>(),
            slice::from_raw_parts(name, length),
        )
    };
    entries.insert(
        str::from_utf8(name).expect("an ASCII symbol").to_owned(),
        count,
    );
}

/// Entries since an earlier reading.
pub fn since(now: Entries, earlier: &Entries) -> Entries {
    now.into_iter()
        .map(|(symbol, count)| {
            let before = earlier.get(&symbol).copied().unwrap_or(0);
            (symbol, count - before)
        })
        .filter(|(_, count)| *count > 0)
        .collect()
}
