//! Every function of the table, column by column: what the workload `every` says that a
//! recording must show of each of its calls, against what a recording shows.

use std::collections::{BTreeMap, BTreeSet};

use agent_common::{APIS, Api, ApiId, Layer, Probe, Shape, flags};
use e2e::{Recorded, api_of, events, facts, record_with, succeed, workload_command};
use serde_json::{Map, Value, json};
use trace::{Event, Fact, Kind};

const SONAMES: [&str; 3] = ["libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13"];
/// Peer copies need two devices.
const DEVICES: (&str, &str) = ("FAKE_CUDA_DEVICES", "2");
/// The first planned failure's code; each symbol has one of its own, unlike every real one.
const FIRST_CODE: usize = 2000;

/// The calls of the workload, untraced.
fn rows(soname: &str) -> Vec<Value> {
    let output = succeed(
        workload_command("every")
            .args(["--cudart", soname])
            .env(DEVICES.0, DEVICES.1),
    );
    let mut report = e2e::last_json(&output.stdout);
    match report["rows"].take() {
        Value::Array(rows) => rows,
        other => panic!("no rows in {other}"),
    }
}

fn symbol(row: &Value) -> &str {
    row["symbol"].as_str().expect("a symbol")
}

/// The workload under the agent, with the first call of every symbol failing.
fn record_every(soname: &str) -> Recorded {
    let symbols: BTreeSet<String> = rows(soname)
        .iter()
        .map(|row| symbol(row).to_owned())
        // Registration cannot fail, nor can texts of errors.
        .filter(|symbol| !symbol.starts_with("__") && !symbol.contains("GetError"))
        .collect();
    let rules: Vec<String> = symbols
        .iter()
        .enumerate()
        .map(|(index, symbol)| format!("{symbol}:1={}", FIRST_CODE + index))
        .collect();
    record_with(&[], "every", &["--cudart", soname], |command| {
        command
            .env(DEVICES.0, DEVICES.1)
            .env("FAKE_CUDA_FAIL", rules.join(","));
    })
}

fn api(event: &Event) -> &'static Api {
    event.api.and_then(ApiId::api).expect("a known function")
}

/// The columns of an event that are set, by the names of the recording's columns.
fn columns(event: &Event) -> Map<String, Value> {
    // Exhaustive: a new column must be compared.
    let Event {
        seq: _,
        timestamp: _,
        duration: _,
        pid: _,
        tid: _,
        kind: _,
        api: _,
        parent: _,
        result: _,
        device,
        source_device,
        location,
        location_id,
        address,
        source,
        size,
        offset,
        count,
        copy_kind,
        stream,
        dimensions,
        shared_memory,
        handle,
        related,
        option,
        kernel: _,
        caller: _,
        stack: _,
        allocated,
        reserved,
        device_free,
        device_total,
        flags: _,
        text: _,
    } = event;
    let columns = [
        ("device", json!(device)),
        ("source_device", json!(source_device)),
        ("location", json!(location)),
        ("location_id", json!(location_id)),
        ("address", json!(address)),
        ("source", json!(source)),
        ("size", json!(size)),
        ("offset", json!(offset)),
        ("count", json!(count)),
        ("copy_kind", json!(copy_kind)),
        ("stream", json!(stream)),
        ("grid", json!(dimensions.map(|dimensions| dimensions.grid))),
        (
            "block",
            json!(dimensions.map(|dimensions| dimensions.block)),
        ),
        ("shared_memory", json!(shared_memory)),
        ("handle", json!(handle)),
        ("related", json!(related)),
        ("option", json!(option)),
        ("allocated", json!(allocated)),
        ("reserved", json!(reserved)),
        ("device_free", json!(device_free)),
        ("device_total", json!(device_total)),
    ];
    columns
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Handles that stand for 64 bytes: equal where the bytes are, and only there.
#[derive(Default)]
struct Names {
    handles: BTreeMap<String, u64>,
}

impl Names {
    fn check(&mut self, name: &str, handle: Option<u64>) -> Result<(), String> {
        let Some(handle) = handle else {
            return Err("handle is null, and stands for 64 bytes".to_owned());
        };
        let known = *self.handles.entry(name.to_owned()).or_insert(handle);
        let others = self.handles.iter().filter(|(_, other)| **other == handle);
        if known != handle || others.count() != 1 {
            return Err(format!("handle {handle:#x} does not stand for {name}"));
        }
        Ok(())
    }
}

/// How an event differs from a row of the workload.
fn differences(row: &Value, event: &Event, names: &mut Names) -> Vec<String> {
    let mut found = Vec::new();
    let (mut seen, expected) = (columns(event), row["columns"].as_object().expect("columns"));
    if let Some(name) = row["handle_names"].as_str() {
        found.extend(names.check(name, event.handle).err());
        seen.remove("handle");
    }
    let all: BTreeSet<&String> = seen.keys().chain(expected.keys()).collect();
    for column in all {
        let (seen, expected) = (seen.get(column), expected.get(column));
        let loose = expected == Some(&json!("any")) || column == "device" && expected.is_none();
        if !loose && seen != expected {
            found.push(format!("{column}: expected {expected:?}, got {seen:?}"));
        }
    }
    let flag = |flag| json!(event.flags & flag != 0);
    for (name, bit, expected) in [
        (
            "PER_THREAD_STREAM",
            flags::PER_THREAD_STREAM,
            &row["per_thread_stream"],
        ),
        ("ARGS_UNREAD", flags::ARGS_UNREAD, &row["args_unread"]),
        ("CAPTURED", flags::CAPTURED, &row["captured"]),
        ("OUT_UNREAD", flags::OUT_UNREAD, &json!(false)),
        ("CAPTURE_UNCLEAR", flags::CAPTURE_UNCLEAR, &json!(false)),
        ("BEGIN_LOST", flags::BEGIN_LOST, &json!(false)),
        ("CALLER_UNREAD", flags::CALLER_UNREAD, &json!(false)),
    ] {
        if !expected.is_null() && flag(bit) != *expected {
            found.push(format!(
                "flag {name}: expected {expected}, got {}",
                flag(bit)
            ));
        }
    }
    found
}

/// Calls that the program made itself, of one kind, in order.
fn own_calls(events: &[Event], kind: Kind) -> Vec<&Event> {
    events
        .iter()
        .filter(|event| event.kind == kind && event.parent.is_none())
        .collect()
}

/// Compares calls with rows, one by one: what differs.
fn compare<'a>(
    rows: impl IntoIterator<Item = &'a Value>,
    events: &[&Event],
    result_of: impl Fn(&Value) -> Value,
) -> Vec<String> {
    let (mut problems, mut names) = (Vec::new(), Names::default());
    let rows: Vec<&Value> = rows.into_iter().collect();
    let mut events = events.iter();
    for (number, row) in rows.iter().enumerate() {
        let name = api_of(symbol(row)).expect("a function of the table");
        let Some(event) = events.next() else {
            problems.push(format!("{number} {}: no event", symbol(row)));
            break;
        };
        if api(event).name != name {
            // What follows would be a comparison of different calls.
            problems.push(format!(
                "{number}: expected {}, got {} {:?}",
                symbol(row),
                api(event).name,
                columns(event)
            ));
            break;
        }
        let mut found = differences(row, event, &mut names);
        if json!(event.result) != result_of(row) {
            found.push(format!(
                "result: expected {}, got {:?}",
                result_of(row),
                event.result
            ));
        }
        if !found.is_empty() {
            problems.push(format!("{number} {}: {}", symbol(row), found.join("; ")));
        }
    }
    if problems.is_empty() {
        problems.extend(events.map(|event| format!("too many: {}", api(event).name)));
    }
    problems
}

/// Whether the runtime makes the call inside a launch, whose end is not seen.
fn is_lookup_of_a_launch(event: &Event, before: Option<&Event>) -> bool {
    let launch = before.is_some_and(|before| api(before).layer == Layer::Runtime);
    let lookups = [
        "cuLibraryGetKernel",
        "cuKernelGetFunction",
        "cuModuleGetFunction",
    ];
    launch && lookups.contains(&api(event).name)
}

fn check_recording(soname: &str) {
    let run = record_every(soname);
    let rows = run.truth["rows"].as_array().expect("rows");
    let (events, ended) = events(&run.file);
    assert!(ended, "{soname}");
    let recorded: Vec<&Value> = rows.iter().filter(|row| row["recorded"] == true).collect();

    let mut calls: Vec<&Event> = Vec::new();
    let mut last_runtime = None;
    for event in own_calls(&events, Kind::Call) {
        if is_lookup_of_a_launch(event, last_runtime) {
            continue;
        }
        last_runtime = Some(event);
        calls.push(event);
    }
    let mut problems = compare(recorded.iter().copied(), &calls, |row| {
        row["result"].clone()
    });

    let begun = recorded.into_iter().filter(|row| {
        let name = api_of(symbol(row));
        let api = APIS.iter().find(|api| Some(api.name) == name);
        api.is_some_and(|api| api.probe == Probe::EntryAndReturn)
    });
    let begins = own_calls(&events, Kind::Begin);
    assert!(!begins.is_empty());
    let begins = compare(begun, &begins, |_| Value::Null);
    problems.extend(begins.into_iter().map(|problem| format!("begin {problem}")));

    problems.extend(fold_problems(soname, &events, &calls));
    problems.extend(identity_problem(rows, &events));
    assert!(
        problems.is_empty(),
        "{soname}: {} problems of {} calls\n{}",
        problems.len(),
        rows.len(),
        problems.join("\n")
    );
}

/// Calls of the driver inside those of the runtime: the same call is folded, and seen in a flag;
/// others have their outermost call as parent.
fn fold_problems(soname: &str, events: &[Event], calls: &[&Event]) -> Vec<String> {
    let children: BTreeSet<[&str; 2]> = events
        .iter()
        .filter_map(|event| Some([event.parent.and_then(ApiId::api)?.name, api(event).name]))
        .collect();
    let load = if soname == SONAMES[0] {
        "cuModuleLoadData"
    } else {
        "cuLibraryLoadData"
    };
    // All contexts of the runtime are made when a device is chosen.
    let expected = ["cuDevicePrimaryCtxRetain", load].map(|child| ["cudaSetDevice", child]);
    let mut problems = Vec::new();
    if children != BTreeSet::from(expected) {
        problems.push(format!("children: expected {expected:?}, got {children:?}"));
    }
    let alone: BTreeSet<&str> = calls
        .iter()
        .filter(|event| api(event).layer == Layer::Runtime && event.result == Some(0))
        .filter(|event| event.flags & flags::DRIVER_SEEN == 0)
        .map(|event| api(event).name)
        .collect();
    if !alone.is_empty() {
        problems.push(format!("without a driver call: {alone:?}"));
    }
    problems
}

/// What the calls told of devices is in the recording's facts.
fn identity_problem(rows: &[Value], events: &[Event]) -> Option<String> {
    let mut known: BTreeSet<(i64, String)> = BTreeSet::new();
    for (_, fact) in facts(events) {
        if let Fact::Device(device) = fact {
            let texts = [device.uuid, device.pci_bus_id].into_iter().flatten();
            known.extend(texts.map(|text| (i64::from(device.ordinal), text)));
        }
    }
    let mut told = BTreeSet::new();
    for identity in rows.iter().map(|row| &row["identity"]) {
        let Some(ordinal) = identity["ordinal"].as_i64() else {
            continue;
        };
        let texts = [&identity["uuid"], &identity["pci_bus_id"]].into_iter();
        told.extend(
            texts
                .filter_map(Value::as_str)
                .map(|text| (ordinal, text.to_owned())),
        );
    }
    assert!(!told.is_empty(), "the workload asked for identities");
    (known != told).then(|| format!("devices: expected {told:?}, got {known:?}"))
}

#[test]
fn every_call_of_cuda_11_is_recorded_as_it_was_made() {
    check_recording(SONAMES[0]);
}

#[test]
fn every_call_of_cuda_12_is_recorded_as_it_was_made() {
    check_recording(SONAMES[1]);
}

#[test]
fn every_call_of_cuda_13_is_recorded_as_it_was_made() {
    check_recording(SONAMES[2]);
}

#[test]
fn no_symbol_of_the_table_is_forgotten() {
    let called: BTreeSet<String> = SONAMES
        .into_iter()
        .flat_map(rows)
        .map(|row| symbol(&row).to_owned())
        .collect();
    let forgotten: Vec<&str> = APIS
        .iter()
        .filter(|api| api.layer != Layer::Torch)
        .flat_map(|api| api.symbols.iter().copied())
        .filter(|symbol| !called.contains(*symbol))
        .collect();
    assert_eq!(forgotten, Vec::<&str>::new());
}

/// Both sides of the two limits that the table has: captures, and long batches.
#[test]
fn limits_are_tried_on_both_sides() {
    for soname in SONAMES {
        let rows = rows(soname);
        let of = |api: &'static Api| {
            rows.iter()
                .filter(move |row| api_of(symbol(row)) == Some(api.name))
        };
        let present = |api: &&'static Api| of(api).next().is_some();
        for api in APIS.iter().filter(present) {
            let (silent, batch) = match api.shape {
                Shape::InCapture => (true, false),
                Shape::CopyBatch | Shape::CopyBatch3D => (false, true),
                _ => continue,
            };
            let any = |wanted: &dyn Fn(&Value) -> bool| of(api).any(wanted);
            if silent {
                assert!(
                    any(&|row| row["recorded"] == true),
                    "{soname}: {}",
                    api.name
                );
                assert!(
                    any(&|row| row["recorded"] == false),
                    "{soname}: {}",
                    api.name
                );
            }
            if batch {
                let counts = |row: &Value| row["columns"]["count"].as_u64();
                assert!(any(
                    &|row| counts(row) == Some(1024) && row["args_unread"] == false
                ));
                assert!(any(
                    &|row| counts(row) == Some(1025) && row["args_unread"] == true
                ));
            }
        }
    }
}
