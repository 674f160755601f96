//! An event as one JSON object (docs/trace.md).

use agent_common::{ApiId, Effect, launch::Dimensions};
use serde_json::{Map, Value, json};
use trace::Event;

/// The object. Keys whose value is not known, or does not apply, are left out.
pub(super) fn object(event: &Event, kernel: Option<&str>, caller: Option<&str>) -> Value {
    // Exhaustive: a new field must find its key.
    let Event {
        seq: _,
        timestamp,
        duration,
        pid,
        tid,
        kind,
        api,
        parent,
        result,
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
        flags,
        text: _,
    } = *event;
    let mut object = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            object.insert(key.to_owned(), value);
        }
    };
    let api_row = api.and_then(ApiId::api);
    put("ts", Some(json!(timestamp)));
    put("pid", Some(json!(pid)));
    put("tid", Some(json!(tid)));
    put("kind", Some(json!(kind.name())));
    put("api", api_row.map(|api| json!(api.name)));
    put("layer", api_row.map(|api| json!(api.layer.name())));
    put("family", api_row.map(|api| json!(api.family.name())));
    put(
        "parent",
        parent.and_then(ApiId::api).map(|api| json!(api.name)),
    );
    put("result", result.map(|code| json!(code)));
    put("duration_ns", duration.map(|ns| json!(ns)));
    put("device", device.map(|ordinal| json!(ordinal)));
    put("source_device", source_device.map(|ordinal| json!(ordinal)));
    put(
        "location",
        location.map(|location| json!(location_name(location))),
    );
    put("location_id", location_id.map(|id| json!(id)));
    let address_key = if is_copy(api_row) {
        "destination"
    } else {
        "address"
    };
    put(address_key, address.map(hex));
    put("source", source.map(hex));
    put("size", size.map(|bytes| json!(bytes)));
    put("offset", offset.map(|bytes| json!(bytes)));
    put("count", count.map(|count| json!(count)));
    put("copy_kind", copy_kind.map(|kind| json!(copy_name(kind))));
    put("stream", stream.map(hex));
    if let Some(Dimensions { grid, block }) = dimensions {
        put("grid", Some(json!(grid)));
        put("block", Some(json!(block)));
    }
    put("shared_memory", shared_memory.map(|bytes| json!(bytes)));
    put("handle", handle.map(hex));
    put("related", related.map(hex));
    put("option", option.map(|option| json!(option)));
    put("kernel", kernel.map(|name| json!(name)));
    put("caller", caller.map(|module| json!(module)));
    put("allocated", allocated.map(|bytes| json!(bytes)));
    put("reserved", reserved.map(|bytes| json!(bytes)));
    put("device_free", device_free.map(|bytes| json!(bytes)));
    put("device_total", device_total.map(|bytes| json!(bytes)));
    put("flags", (flags != 0).then(|| json!(flags)));
    Value::Object(object)
}

/// Addresses and handles have 64 bits, which JSON readers may round: as hex strings.
fn hex(value: u64) -> Value {
    json!(format!("{value:#x}"))
}

fn is_copy(api: Option<&agent_common::Api>) -> bool {
    api.is_some_and(|api| api.effect == Effect::Copy)
}

/// The name of a `CUmemLocationType`.
pub(super) fn location_name(location: u8) -> &'static str {
    match location {
        1 => "device",
        2 => "host",
        3 => "host_numa",
        4 => "host_numa_current",
        _ => "unknown",
    }
}

/// The name of a `cudaMemcpyKind`.
pub(super) fn copy_name(kind: u8) -> &'static str {
    match kind {
        0 => "host_to_host",
        1 => "host_to_device",
        2 => "device_to_host",
        3 => "device_to_device",
        4 => "default",
        _ => "unknown",
    }
}
