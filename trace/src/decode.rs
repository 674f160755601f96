//! From the kernel's records to [`Event`]s: one arm per argument shape.

use agent_common::{ApiId, CallRecord, RecordKind, Shape, flags, launch};

use crate::{Event, Kind};

impl Event {
    /// The event of a call record; `None` for a record that is no call or names no known
    /// function. `seq`, `kernel` and `caller` are left for the recorder to fill in.
    pub fn from_record(record: &CallRecord) -> Option<Self> {
        let CallRecord {
            header,
            duration,
            caller: _,
            result,
            parent,
            reserved: _,
            args,
        } = *record;
        let kind = match RecordKind::from_u8(header.kind)? {
            RecordKind::Call => Kind::Call,
            RecordKind::Begin => Kind::Begin,
            RecordKind::Abandoned => Kind::Abandoned,
            RecordKind::KernelName
            | RecordKind::KernelPair
            | RecordKind::Fork
            | RecordKind::Exec
            | RecordKind::Exit
            | RecordKind::Mapped
            | RecordKind::Held => return None,
        };
        let id = ApiId(header.api);
        let api = id.api()?;
        let returned = header.flags & flags::RETURNED != 0;
        let args_known = header.flags & flags::ARGS_UNREAD == 0;
        let out_known = returned && result == 0 && header.flags & flags::OUT_UNREAD == 0;
        let mut event = Self {
            timestamp: header.timestamp,
            duration: (returned || kind == Kind::Abandoned).then_some(duration),
            pid: header.pid,
            tid: header.tid,
            kind,
            api: Some(id),
            parent: parent
                .checked_sub(1)
                .map(ApiId)
                .filter(|id| id.api().is_some()),
            result: returned.then_some(result),
            flags: header.flags,
            ..Self::default()
        };
        match api.shape {
            Shape::Alloc => {
                event.address = out_known.then_some(args[0]);
                event.size = Some(args[1].cast_signed());
            }
            Shape::Free => event.address = Some(args[0]),
            Shape::MemoryInfo => {
                event.device_free = out_known.then_some(args[0]);
                event.device_total = out_known.then_some(args[1]);
            }
            Shape::SelectDevice => event.device = i32::try_from(args[0]).ok(),
            Shape::LaunchRuntime
            | Shape::LaunchRuntimeEx
            | Shape::LaunchDriver
            | Shape::LaunchDriverEx => {
                event.handle = Some(args[0]);
                if args_known {
                    event.dimensions = Some(launch::unpack([args[1], args[2], args[3]]));
                    event.shared_memory = Some(args[4]);
                    event.stream = Some(args[5]);
                }
            }
            Shape::GraphLaunch => {
                event.handle = Some(args[0]);
                event.stream = Some(args[1]);
            }
            Shape::CopyKind | Shape::CopyKindStream | Shape::Copy | Shape::CopyStream => {
                event.address = Some(args[0]);
                event.source = Some(args[1]);
                event.size = Some(args[2].cast_signed());
                event.copy_kind = u8::try_from(args[3]).ok();
                event.stream = matches!(api.shape, Shape::CopyKindStream | Shape::CopyStream)
                    .then_some(args[4]);
            }
            Shape::WaitDevice => {}
            Shape::WaitStream => event.stream = Some(args[1]),
            Shape::WaitEvent => event.handle = Some(args[1]),
            Shape::KernelByName | Shape::KernelFunction | Shape::KernelName => {
                event.handle = out_known.then_some(args[0]);
            }
            Shape::TorchReport => {
                event.address = Some(args[0]);
                event.size = Some(args[1].cast_signed());
                event.allocated = Some(args[2]);
                event.reserved = Some(args[3]);
                event.device = torch_device(args[4]);
            }
            Shape::TorchOutOfMemory => {
                event.size = Some(args[1].cast_signed());
                event.allocated = Some(args[2]);
                event.reserved = Some(args[3]);
                event.device = torch_device(args[4]);
            }
        }
        Some(event)
    }
}

/// The ordinal in a `c10::Device` passed by value: low byte the device type (1 is CUDA),
/// next byte the index. `None` for another type (c10/core/Device.h, c10/core/DeviceType.h).
fn torch_device(word: u64) -> Option<i32> {
    let [device_type, index, ..] = word.to_le_bytes();
    (device_type == 1).then(|| i32::from(index.cast_signed()))
}
