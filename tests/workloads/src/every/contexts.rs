//! Contexts, and which device is which.

use serde_json::{Value, json};

use super::{
    arguments::{Memory, int, registers},
    expected::nothing,
    session::Session,
};

/// The device that everything happens on; the other one is 1.
pub(super) const DEVICE: u32 = 0;
/// The other one.
pub(super) const OTHER: u32 = 1;
/// An error whose text is asked for.
const ILLEGAL_ADDRESS: u32 = 700;

/// 16 bytes as a UUID is written.
fn uuid(bytes: &Memory, first: usize) -> String {
    let bytes: Vec<u8> = [bytes.word(first), bytes.word(first + 1)]
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .collect();
    let part = |range: std::ops::Range<usize>| -> String {
        bytes[range]
            .iter()
            .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    };
    format!(
        "GPU-{}-{}-{}-{}-{}",
        part(0..4),
        part(4..6),
        part(6..8),
        part(8..10),
        part(10..16)
    )
}

fn has_uuid(bytes: &Memory, first: usize, device: u32) -> impl Fn() -> Value + 'static {
    let bytes = bytes.clone();
    move || json!({ "ordinal": device, "uuid": uuid(&bytes, first) })
}

fn has_bus_id(bytes: &Memory, device: u32) -> impl Fn() -> Value + 'static {
    let bytes = bytes.clone();
    move || {
        let text: Vec<u8> = bytes
            .words()
            .flat_map(u64::to_le_bytes)
            .take_while(|byte| *byte != 0)
            .collect();
        json!({ "ordinal": device, "pci_bus_id": String::from_utf8(text).expect("ASCII") })
    }
}

/// Starts the driver: leaves device 0's primary context current, and tells both devices'.
pub(super) fn driver(session: &mut Session) -> [u64; 2] {
    session.set_up("cuInit", &registers([int(0)]));
    let (context, other) = (Memory::out(), Memory::out());
    // The other one twice, for it is released twice.
    for (device, context) in [(DEVICE, &context), (OTHER, &other), (OTHER, &other)] {
        session.call(
            "cuDevicePrimaryCtxRetain",
            &registers([context.at(), int(device)]),
            nothing().handle_left(context).device(device.into()),
        );
    }
    let (context, other) = (context.get(), other.get());
    session.call(
        "cuCtxSetCurrent",
        &registers([context]),
        nothing().handle(context),
    );
    session.call(
        "cuCtxPushCurrent_v2",
        &registers([other]),
        nothing().handle(other),
    );
    let popped = Memory::out();
    session.call(
        "cuCtxPopCurrent_v2",
        &registers([popped.at()]),
        nothing().handle_left(&popped),
    );
    assert_eq!(popped.get(), other);

    made_contexts(session);
    identities(session);
    driver_errors(session);
    session.call(
        "cuDeviceGraphMemTrim",
        &registers([int(OTHER)]),
        nothing().device(OTHER.into()),
    );
    [context, other]
}

fn made_contexts(session: &mut Session) {
    let (flags, count) = (int(0x10), int(0));
    let created = Memory::out();
    let (out, device) = (created.at(), int(OTHER));
    for (symbol, arguments) in [
        ("cuCtxCreate_v2", registers([out, flags, device])),
        ("cuCtxCreate_v3", registers([out, 0, count, flags, device])),
        ("cuCtxCreate_v4", registers([out, 0, flags, device])),
    ] {
        session.call(
            symbol,
            &arguments,
            nothing().handle_left(&created).device(OTHER.into()),
        );
        let context = created.get();
        session.call(
            "cuCtxDestroy_v2",
            &registers([context]),
            nothing().handle(context),
        );
    }
}

fn identities(session: &mut Session) {
    for device in [DEVICE, OTHER] {
        for symbol in ["cuDeviceGetUuid", "cuDeviceGetUuid_v2"] {
            let bytes = Memory::of([0; 2]);
            session.call(
                symbol,
                &registers([bytes.at(), int(device)]),
                nothing()
                    .device(device.into())
                    .identity(has_uuid(&bytes, 0, device)),
            );
        }
        let bytes = Memory::of([0; 2]);
        session.call(
            "cuDeviceGetPCIBusId",
            &registers([bytes.at(), int(16), int(device)]),
            nothing()
                .device(device.into())
                .identity(has_bus_id(&bytes, device)),
        );
    }
}

/// What the driver says of an error.
fn driver_errors(session: &mut Session) {
    for symbol in ["cuGetErrorString", "cuGetErrorName"] {
        let text = Memory::of([0]);
        let arguments = registers([int(ILLEGAL_ADDRESS), text.at()]);
        session.call_for_text(
            symbol,
            &arguments,
            &nothing().option(ILLEGAL_ADDRESS.into()),
        );
    }
}

/// Ends what [`driver`] began.
pub(super) fn end_driver(session: &mut Session) {
    session.call(
        "cuDevicePrimaryCtxReset",
        &registers([int(OTHER)]),
        nothing().device(OTHER.into()),
    );
    session.call(
        "cuDevicePrimaryCtxRelease",
        &registers([int(OTHER)]),
        nothing().device(OTHER.into()),
    );
    for symbol in ["cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset_v2"] {
        session.call(
            symbol,
            &registers([int(OTHER)]),
            nothing().device(OTHER.into()),
        );
    }
}

/// Chooses a device in the runtime: the first call there that needs a context.
pub(super) fn runtime(session: &mut Session) {
    for device in [OTHER, DEVICE] {
        session.call(
            "cudaSetDevice",
            &registers([int(device)]),
            nothing().device(device.into()),
        );
    }
    // The largest of the structures has 1,032 bytes.
    for symbol in ["cudaGetDeviceProperties", "cudaGetDeviceProperties_v2"] {
        let properties = Memory::of([0; 160]);
        session.call(
            symbol,
            &registers([properties.at(), int(OTHER)]),
            nothing()
                .device(OTHER.into())
                .identity(has_uuid(&properties, 256 / 8, OTHER)),
        );
    }
    let bytes = Memory::of([0; 2]);
    session.call(
        "cudaDeviceGetPCIBusId",
        &registers([bytes.at(), int(16), int(OTHER)]),
        nothing()
            .device(OTHER.into())
            .identity(has_bus_id(&bytes, OTHER)),
    );
    for symbol in ["cudaGetErrorString", "cudaGetErrorName"] {
        let arguments = registers([int(ILLEGAL_ADDRESS)]);
        session.call_for_text(
            symbol,
            &arguments,
            &nothing().option(ILLEGAL_ADDRESS.into()),
        );
    }
    session.call(
        "cudaDeviceGraphMemTrim",
        &registers([int(OTHER)]),
        nothing().device(OTHER.into()),
    );
}

/// Ends the device's context.
pub(super) fn end_runtime(session: &mut Session) {
    session.call("cudaDeviceReset", &registers([]), nothing());
}
