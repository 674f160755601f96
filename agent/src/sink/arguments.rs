//! What a call was given and what it gave, as a person wants it in a line.

use std::fmt::Write as _;

use agent_common::{Api, Effect, Field, Shape, flags, launch::Dimensions};
use analyzer::text::bytes as bytes_text;
use trace::Event;

use super::json::{copy_name, location_name};

/// The arguments, in brackets.
pub(super) fn arguments(line: &mut String, event: &Event, api: &Api, kernel: Option<&str>) {
    match api.effect {
        Effect::Launch => launch(line, event, kernel),
        Effect::Copy => in_brackets(line, &copy(event)),
        Effect::TorchReport => torch(line, event, api.shape),
        Effect::DeviceAlloc
        | Effect::DeviceFree
        | Effect::ManagedAlloc
        | Effect::HostAlloc
        | Effect::HostFree
        | Effect::HostRegister
        | Effect::HostUnregister
        | Effect::PoolAlloc
        | Effect::PoolFree
        | Effect::ArrayAlloc
        | Effect::ArrayFree
        | Effect::PoolCreate
        | Effect::PoolDestroy
        | Effect::PoolTrim
        | Effect::PoolSet
        | Effect::PoolLookup
        | Effect::PoolExport
        | Effect::PoolImport
        | Effect::PoolPointerExport
        | Effect::PoolPointerImport
        | Effect::MemoryInfo
        | Effect::GraphMemoryTrim
        | Effect::AddressReserve
        | Effect::AddressFree
        | Effect::PhysicalCreate
        | Effect::PhysicalRelease
        | Effect::PhysicalRetain
        | Effect::Map
        | Effect::Unmap
        | Effect::SetAccess
        | Effect::PhysicalExport
        | Effect::PhysicalImport
        | Effect::Multicast
        | Effect::IpcExport
        | Effect::IpcOpen
        | Effect::IpcClose
        | Effect::SelectDevice
        | Effect::ContextPush
        | Effect::ContextPop
        | Effect::ContextRetain
        | Effect::ContextRelease
        | Effect::ContextCreate
        | Effect::ContextDestroy
        | Effect::ContextReset
        | Effect::DeviceIdentity
        | Effect::ErrorText
        | Effect::HostFunction
        | Effect::CaptureBegin
        | Effect::CaptureEnd
        | Effect::EventRecord
        | Effect::StreamWait
        | Effect::GraphInstantiate
        | Effect::GraphLaunch
        | Effect::GraphUpload
        | Effect::GraphUpdate
        | Effect::GraphDestroy
        | Effect::GraphExecDestroy
        | Effect::GraphNodes
        | Effect::GraphAlloc
        | Effect::GraphFree
        | Effect::Set
        | Effect::Wait
        | Effect::KernelLookup
        | Effect::ModuleLoad
        | Effect::ModuleUnload
        | Effect::Registration => in_brackets(line, &values(event, api)),
    }
    if event.flags & flags::CAPTURED != 0 {
        line.push_str("  captured");
    }
}

/// What a call that succeeded gave.
pub(super) fn outcome(line: &mut String, event: &Event, api: &Api) {
    let gives = |field| is_out(api, field);
    let _ = if gives(Field::Address) {
        write!(line, " = {}", address(event.address, "unknown address"))
    } else if let (Some(free), Some(total)) = (event.device_free, event.device_total) {
        let (free, total) = (bytes_text(free), bytes_text(total));
        write!(line, " = {free} free of {total}")
    } else if let Some(count) = event.count.filter(|_| gives(Field::Count)) {
        write!(line, " = {count}")
    } else if gives(Field::Handle) || gives(Field::Context) || api.effect == Effect::KernelLookup {
        write!(line, " = {}", address(event.handle, "ok"))
    } else {
        write!(line, " = ok")
    };
}

/// Whether the call gives this value, rather than being given it.
fn is_out(api: &Api, field: Field) -> bool {
    api.values
        .iter()
        .any(|value| value.field == field && value.place.kind.is_out())
}

/// What any call was given.
fn values(event: &Event, api: &Api) -> Vec<String> {
    let mut parts = Vec::new();
    let given = |field| !is_out(api, field);
    let mut part = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let separator = if name.is_empty() { "" } else { " " };
            parts.push(format!("{name}{separator}{value}"));
        }
    };
    let hex = |value: Option<u64>| value.map(|value| format!("{value:#x}"));
    part("", event.size.map(|_| size(event.size)));
    part("", hex(event.address).filter(|_| given(Field::Address)));
    let handle = hex(event.handle).filter(|_| given(Field::Handle) && given(Field::Context));
    part(
        noun(api.effect),
        handle.filter(|_| api.effect != Effect::KernelLookup),
    );
    part("of", hex(event.related).filter(|_| given(Field::Related)));
    part("offset", event.offset.map(|offset| offset.to_string()));
    part(
        "count",
        event
            .count
            .filter(|_| given(Field::Count))
            .map(|n| n.to_string()),
    );
    if let Some(location) = event.location {
        let id = event.location_id.unwrap_or(0);
        part("on", Some(format!("{} {id}", location_name(location))));
    } else if api.values.iter().any(|value| value.field == Field::Device) {
        part("device", event.device.map(|ordinal| ordinal.to_string()));
    }
    part("", stream(event.stream));
    parts
}

/// What the handle of such a call is.
const fn noun(effect: Effect) -> &'static str {
    match effect {
        Effect::Wait | Effect::EventRecord | Effect::StreamWait => "event",
        Effect::GraphLaunch
        | Effect::GraphUpload
        | Effect::GraphUpdate
        | Effect::GraphExecDestroy => "exec",
        Effect::GraphDestroy | Effect::GraphNodes => "graph",
        Effect::PoolDestroy
        | Effect::PoolTrim
        | Effect::PoolSet
        | Effect::PoolLookup
        | Effect::PoolExport => "pool",
        Effect::PhysicalRelease | Effect::Map | Effect::PhysicalExport | Effect::Multicast => {
            "handle"
        }
        Effect::ArrayFree => "array",
        Effect::SelectDevice | Effect::ContextPush | Effect::ContextDestroy => "context",
        Effect::ModuleUnload => "module",
        Effect::HostFunction => "function",
        Effect::DeviceAlloc
        | Effect::DeviceFree
        | Effect::ManagedAlloc
        | Effect::HostAlloc
        | Effect::HostFree
        | Effect::HostRegister
        | Effect::HostUnregister
        | Effect::PoolAlloc
        | Effect::PoolFree
        | Effect::ArrayAlloc
        | Effect::PoolCreate
        | Effect::PoolImport
        | Effect::PoolPointerExport
        | Effect::PoolPointerImport
        | Effect::MemoryInfo
        | Effect::GraphMemoryTrim
        | Effect::AddressReserve
        | Effect::AddressFree
        | Effect::PhysicalCreate
        | Effect::PhysicalRetain
        | Effect::Unmap
        | Effect::SetAccess
        | Effect::PhysicalImport
        | Effect::IpcExport
        | Effect::IpcOpen
        | Effect::IpcClose
        | Effect::ContextPop
        | Effect::ContextRetain
        | Effect::ContextRelease
        | Effect::ContextCreate
        | Effect::ContextReset
        | Effect::DeviceIdentity
        | Effect::ErrorText
        | Effect::Launch
        | Effect::CaptureBegin
        | Effect::CaptureEnd
        | Effect::GraphInstantiate
        | Effect::GraphAlloc
        | Effect::GraphFree
        | Effect::Copy
        | Effect::Set
        | Effect::KernelLookup
        | Effect::ModuleLoad
        | Effect::Registration
        | Effect::TorchReport => "",
    }
}

fn copy(event: &Event) -> Vec<String> {
    let end = |pointer: Option<u64>, array: Option<u64>| match (pointer, array) {
        (Some(pointer), _) => format!("{pointer:#x}"),
        (None, Some(array)) => format!("array {array:#x}"),
        (None, None) => "?".to_owned(),
    };
    let mut parts = vec![
        event.copy_kind.map_or("?", copy_name).to_owned(),
        size(event.size),
    ];
    match event.count {
        Some(count) if event.address.is_none() && event.handle.is_none() => {
            parts.push(format!("{count} blocks"));
        }
        _ => parts.push(format!(
            "{} <- {}",
            end(event.address, event.handle),
            end(event.source, event.related)
        )),
    }
    parts.extend(stream(event.stream));
    parts
}

fn launch(line: &mut String, event: &Event, kernel: Option<&str>) {
    let mut parts = vec![match (kernel, event.handle) {
        (Some(name), _) => name.to_owned(),
        (None, Some(handle)) => format!("unknown kernel {handle:#x}"),
        (None, None) => "unknown kernel".to_owned(),
    }];
    match event.dimensions {
        Some(Dimensions {
            grid: [gx, gy, gz],
            block: [bx, by, bz],
        }) => {
            parts.push(format!("grid {gx}x{gy}x{gz}"));
            parts.push(format!("block {bx}x{by}x{bz}"));
        }
        None => parts.push("grid ?, block ?".to_owned()),
    }
    if let Some(bytes) = event.shared_memory.filter(|bytes| *bytes != 0) {
        parts.push(format!("shared {}", bytes_text(bytes)));
    }
    parts.extend(stream(event.stream));
    in_brackets(line, &parts);
}

fn torch(line: &mut String, event: &Event, shape: Shape) {
    if shape == Shape::TorchOutOfMemory {
        in_brackets(line, &[format!("asked for {}", size(event.size))]);
    } else {
        let device = event
            .device
            .map_or("?".to_owned(), |ordinal| ordinal.to_string());
        let block = format!("{} at {}", size(event.size), address(event.address, "?"));
        in_brackets(line, &[block, format!("device {device}")]);
    }
    let bytes = |value: Option<u64>| value.map_or("?".to_owned(), bytes_text);
    let (allocated, reserved) = (bytes(event.allocated), bytes(event.reserved));
    let _ = write!(line, "  allocated {allocated}, reserved {reserved}");
}

fn in_brackets(line: &mut String, parts: &[String]) {
    let _ = write!(line, "({})", parts.join(", "));
}

fn size(bytes: Option<i64>) -> String {
    let Some(bytes) = bytes else {
        return "?".to_owned();
    };
    let text = bytes_text(bytes.unsigned_abs());
    if bytes < 0 { format!("-{text}") } else { text }
}

fn address(value: Option<u64>, unknown: &str) -> String {
    value.map_or(unknown.to_owned(), |value| format!("{value:#x}"))
}

fn stream(handle: Option<u64>) -> Option<String> {
    match handle {
        None | Some(0) => None,
        Some(1) => Some("legacy stream".to_owned()),
        Some(2) => Some("per-thread stream".to_owned()),
        Some(handle) => Some(format!("stream {handle:#x}")),
    }
}
