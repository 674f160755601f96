//! A real GPU's own books: a program that takes and gives back memory at random, and asks
//! 389 times how much is free.
//!
//! The ledger follows the device to the page; and the fake driver, asked to do the same, hands
//! out as many pages as the real one did.
#![expect(
    clippy::unwrap_used,
    reason = "a test panics where its ground gives way"
)]

#[path = "fake_driver/driver.rs"]
mod driver;

use std::{collections::HashMap, fs::File};

use agent_common::{Api, Family};
use ledger::Ledger;
use trace::{Event, Kind, Reader};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/held.arrows");

fn events() -> Vec<Event> {
    let reader = Reader::new(File::open(RECORDING).unwrap()).unwrap();
    let batches: Vec<_> = reader.map(Result::unwrap).collect();
    let rows = batches
        .iter()
        .flat_map(|batch| (0..batch.len()).map(|row| batch.event(row)));
    rows.collect()
}

/// A successful call: the function's name. Nothing for all other rows.
fn call(event: &Event) -> Option<&'static str> {
    let api: &Api = event.api?.api()?;
    (event.kind == Kind::Call && event.result == Some(0)).then_some(api.name)
}

/// Splits at the first call of some functions after the program has warmed up.
fn until_first<'a>(events: &'a [Event], names: &[&str]) -> (&'a [Event], &'a [Event]) {
    let warm = events
        .iter()
        .position(|event| call(event) == Some("cudaMemGetInfo"))
        .unwrap();
    let first = events[warm..]
        .iter()
        .position(|event| call(event).is_some_and(|name| names.contains(&name)))
        .unwrap();
    events.split_at(warm + first)
}

#[test]
fn what_is_held_follows_the_device_to_the_page() {
    let events = events();
    let (without_arrays, with_arrays) = until_first(&events, &["cudaMallocArray"]);
    let mut ledger = Ledger::default();
    let mut unattributed = Vec::new();
    for event in without_arrays {
        ledger.apply(event);
        unattributed.extend(told(&ledger, event));
    }
    assert_eq!(unattributed.len(), 329);
    // Whatever the context and the modules take, it does not move.
    assert_eq!(unattributed, vec![unattributed[0]; unattributed.len()]);

    // Arrays have no addresses, so how well small ones share pages is not known: never is more
    // said to be held than is, and never much less.
    let mut more = Vec::new();
    for event in with_arrays {
        ledger.apply(event);
        more.extend(told(&ledger, event).map(|now| now.checked_sub(unattributed[0]).unwrap()));
    }
    assert_eq!(more.len(), 60);
    assert!(
        more.iter().all(|more| [0, 2 << 20].contains(more)),
        "{more:?}"
    );
    let exact = more.iter().filter(|more| **more == 0).count();
    assert!(exact >= 50, "{exact}: {more:?}");
}

/// What is unattributed, where `event` asked.
fn told(ledger: &Ledger, event: &Event) -> Option<u64> {
    call(event).filter(|name| *name == "cudaMemGetInfo")?;
    let process = ledger.process(event.pid).unwrap();
    let reading = process.devices()[&Some(0)].reading().unwrap();
    assert_eq!(Some(reading.free), event.device_free);
    reading.unattributed()
}

#[test]
fn the_fake_driver_hands_out_pages_as_the_real_one_does() {
    let events = events();
    // Where a block lands in a pool's pieces is the real driver's secret.
    let (without_pools, _) = until_first(&events, &["cudaMallocAsync", "cudaMallocFromPoolAsync"]);
    driver::select(0);
    let mut replay = Replay::default();
    let mut used = Vec::new();
    for event in without_pools {
        replay.repeat(event);
        if call(event) == Some("cudaMemGetInfo") {
            let (free, total) = driver::memory(0);
            let real = event.device_total.unwrap() - event.device_free.unwrap();
            used.push((total - free, real));
        }
    }
    assert_eq!(used.len(), 199);
    let first = used[0];
    for (step, (fake, real)) in used.iter().enumerate() {
        assert_eq!(fake - first.0, real - first.1, "question {step}");
    }
}

/// Makes the calls of a recording on the fake driver.
#[derive(Default)]
struct Replay {
    /// The recording's addresses and handles in terms of the fake's.
    meant: HashMap<u64, u64>,
}

impl Replay {
    fn repeat(&mut self, event: &Event) {
        let Some(name) = call(event) else { return };
        let address = || event.address.unwrap();
        let size = || usize::try_from(event.size.unwrap()).unwrap();
        let mut new = 0;
        let result = match name {
            "cudaMalloc" | "cuMemAlloc_v2" => {
                // SAFETY: the pointer is valid.
                let result = unsafe { driver::cuMemAlloc_v2(&raw mut new, size()) };
                self.meant.insert(address(), new);
                result
            }
            "cudaFree" | "cuMemFree_v2" => match self.meant.remove(&address()) {
                Some(block) => driver::cuMemFree_v2(block),
                // Of null, which is how the program begins; of a block of a pool.
                None => 0,
            },
            "cuMemAddressReserve" => {
                // SAFETY: the pointer is valid.
                let result = unsafe { driver::cuMemAddressReserve(&raw mut new, size(), 0, 0, 0) };
                self.meant.insert(address(), new);
                result
            }
            "cuMemAddressFree" => {
                driver::cuMemAddressFree(self.meant.remove(&address()).unwrap(), size())
            }
            "cuMemCreate" => {
                let properties = driver::Properties {
                    kind: 1,
                    handle_types: 1,
                    location: [1, 0],
                    rest: [0; 9],
                };
                // SAFETY: the pointers are valid.
                let result =
                    unsafe { driver::cuMemCreate(&raw mut new, size(), &raw const properties, 0) };
                self.meant.insert(event.handle.unwrap(), new);
                result
            }
            "cuMemRelease" => {
                driver::cuMemRelease(self.meant.remove(&event.handle.unwrap()).unwrap())
            }
            "cuMemMap" => {
                let handle = self.meant[&event.handle.unwrap()];
                driver::cuMemMap(self.meant[&address()], size(), 0, handle, 0)
            }
            "cuMemUnmap" => driver::cuMemUnmap(self.meant[&address()], size()),
            // The program's first calls try pools, too, and leave nothing in them.
            "cudaMallocAsync"
            | "cudaMallocFromPoolAsync"
            | "cudaFreeAsync"
            | "cudaMemPoolCreate"
            | "cudaDeviceGetDefaultMemPool"
            | "cudaMemGetInfo"
            | "cudaStreamSynchronize" => 0,
            other if event.api.unwrap().api().unwrap().family != Family::Memory => {
                assert!(!other.contains("Mem"), "{other} is not repeated");
                0
            }
            other => panic!("{other} is not repeated"),
        };
        assert_eq!(result, 0, "{name}");
    }
}
