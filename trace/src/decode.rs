//! From the kernel's records to [`Event`]s.

use std::fmt::Write as _;

use agent_common::{
    ApiId, BEFORE_13, Effect, Field, LongCallRecord, MAX_VALUES, Place, PlaceKind, RecordKind,
    Shape, Value, flags, launch,
};

use crate::{Event, Kind, fact};

impl Event {
    /// The event of a call record; `None` for a record that is no call or names no known
    /// function. `seq`, `kernel` and `caller` are left for the recorder to fill in.
    pub fn from_record(record: &LongCallRecord) -> Option<Self> {
        let header = record.call.header;
        let kind = match RecordKind::from_u8(header.kind)? {
            RecordKind::Call => Kind::Call,
            RecordKind::Begin => Kind::Begin,
            RecordKind::Abandoned => Kind::Abandoned,
            RecordKind::KernelName
            | RecordKind::KernelPair
            | RecordKind::Registered
            | RecordKind::Fork
            | RecordKind::Exec
            | RecordKind::Exit
            | RecordKind::Started
            | RecordKind::CudaStarted
            | RecordKind::Mapped
            | RecordKind::Held => return None,
        };
        let call = Call::of(record)?;
        let mut event = Self {
            timestamp: header.timestamp,
            duration: (call.returned || kind == Kind::Abandoned).then_some(record.call.duration),
            pid: header.pid,
            tid: header.tid,
            kind,
            api: Some(ApiId(header.api)),
            parent: record
                .call
                .parent
                .checked_sub(1)
                .map(ApiId)
                .filter(|id| id.api().is_some()),
            result: call.returned.then_some(record.call.result),
            flags: header.flags & !BEFORE_13,
            ..Self::default()
        };
        call.fill(&mut event);
        Some(event)
    }
}

/// What a call tells of a device's identity; `None` for any other call, or one that failed.
pub fn device_identity(record: &LongCallRecord) -> Option<fact::Device> {
    let call = Call::of(record)?;
    if call.effect != Effect::DeviceIdentity {
        return None;
    }
    let bytes = |low, high| {
        let (low, high) = (call.get(low)?, call.get(high)?);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&low.to_le_bytes());
        bytes[8..].copy_from_slice(&high.to_le_bytes());
        Some(bytes)
    };
    let uuid = bytes(Field::UuidLow, Field::UuidHigh).map(|uuid| {
        let mut text = "GPU".to_owned();
        for (index, byte) in uuid.iter().enumerate() {
            let dash = if matches!(index, 0 | 4 | 6 | 8 | 10) {
                "-"
            } else {
                ""
            };
            // Writing to a string does not fail.
            let _ = write!(text, "{dash}{byte:02x}");
        }
        text
    });
    let pci_bus_id = bytes(Field::PciLow, Field::PciHigh).and_then(|text| {
        let length = text.iter().position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let is_bus_id = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
        (!text.is_empty() && text.chars().all(is_bus_id)).then(|| text.to_owned())
    });
    if uuid.is_none() && pci_bus_id.is_none() {
        return None;
    }
    Some(fact::Device {
        pid: record.call.header.pid,
        ordinal: int(call.get(Field::Device)?),
        uuid,
        pci_bus_id,
    })
}

/// A call's values and which of them are known.
struct Call {
    shape: Shape,
    effect: Effect,
    values: &'static [Value],
    words: [u64; MAX_VALUES],
    returned: bool,
    /// What stood on the stack or behind pointers at entry could be read.
    args_known: bool,
    /// The call succeeded, and what it left behind pointers could be read.
    out_known: bool,
}

impl Call {
    fn of(record: &LongCallRecord) -> Option<Self> {
        let header = record.call.header;
        let api = ApiId(header.api).api()?;
        let has = |flag| header.flags & flag != 0;
        let older = api.values_before_13.filter(|_| has(BEFORE_13));
        let returned = has(flags::RETURNED);
        Some(Self {
            shape: api.shape,
            effect: api.effect,
            values: older.unwrap_or(api.values),
            words: record.values(),
            returned,
            args_known: !has(flags::ARGS_UNREAD),
            out_known: returned && record.call.result == 0 && !has(flags::OUT_UNREAD),
        })
    }

    fn fill(&self, event: &mut Event) {
        let args = self.words;
        match self.shape {
            Shape::Values | Shape::CopyBatch | Shape::CopyBatch3D | Shape::InCapture => {
                self.fill_values(event);
            }
            Shape::LaunchRuntime
            | Shape::LaunchRuntimeEx
            | Shape::LaunchDriver
            | Shape::LaunchDriverEx => {
                event.handle = Some(args[0]);
                if self.args_known {
                    event.dimensions = Some(launch::unpack([args[1], args[2], args[3]]));
                    event.shared_memory = Some(args[4]);
                    event.stream = Some(args[5]);
                }
            }
            Shape::KernelByName => {
                event.handle = self.out_known.then_some(args[0]);
                event.related = Some(args[1]);
            }
            Shape::KernelFunction | Shape::KernelName => {
                event.handle = self.out_known.then_some(args[0]);
            }
            Shape::Registration => {}
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
    }

    fn is_known(&self, place: Place) -> bool {
        match place.kind {
            PlaceKind::Constant | PlaceKind::Register | PlaceKind::RegisterInt => true,
            PlaceKind::Stack
            | PlaceKind::StackInt
            | PlaceKind::Behind
            | PlaceKind::BehindInt
            | PlaceKind::StackFingerprint
            | PlaceKind::CopyEnd => self.args_known,
            PlaceKind::Out | PlaceKind::OutInt | PlaceKind::OutFingerprint => self.out_known,
        }
    }

    fn is_batch(&self) -> bool {
        matches!(self.shape, Shape::CopyBatch | Shape::CopyBatch3D)
    }

    fn get(&self, wanted: Field) -> Option<u64> {
        let mut values = self.values.iter().zip(self.words);
        values.find_map(|(value, word)| {
            (value.field == wanted && self.is_known(value.place)).then_some(word)
        })
    }

    fn fill_values(&self, event: &mut Event) {
        // In one pass: this is done for nearly every call.
        let mut size = Size::default();
        let mut ends = Ends::default();
        for (value, word) in self.values.iter().zip(self.words) {
            let known = self.is_known(value.place).then_some(word);
            let field = value.field;
            match (field, known) {
                (
                    Field::Size
                    | Field::Pitch
                    | Field::Width
                    | Field::Height
                    | Field::Depth
                    | Field::Halves
                    | Field::Words
                    | Field::ChannelBits
                    | Field::ArrayFormat,
                    _,
                ) => size.factor(field, known),
                // The last four have no columns: `device_identity`.
                (_, None)
                | (Field::UuidLow | Field::UuidHigh | Field::PciLow | Field::PciHigh, _) => {}
                (Field::Address, _) => event.address = known,
                (Field::Source, _) => event.source = known,
                (Field::CopyKind, Some(kind)) => event.copy_kind = u8::try_from(kind).ok(),
                (Field::Stream, _) => event.stream = known,
                (Field::Handle | Field::Context, _) => event.handle = known,
                (Field::Related | Field::SourceContext, _) => event.related = known,
                (Field::Device, Some(word)) => event.device = Some(int(word)),
                (Field::SourceDevice, Some(word)) => event.source_device = Some(int(word)),
                (Field::LocationType, Some(kind)) => event.location = u8::try_from(kind).ok(),
                (Field::LocationId, Some(word)) => event.location_id = Some(int(word)),
                (Field::Offset, _) => event.offset = known,
                (Field::Count, _) => event.count = known,
                (Field::Option, _) => event.option = known,
                (Field::DeviceFree, _) => event.device_free = known,
                (Field::DeviceTotal, _) => event.device_total = known,
                // Only the release threshold is in bytes; the attribute comes first.
                (Field::PoolValue, Some(bytes)) => {
                    if event.option == Some(RELEASE_THRESHOLD) {
                        size.factor(Field::Size, Some(bytes));
                    }
                }
                (Field::DestinationArray, _) => ends.destination_array = known,
                (Field::SourceArray, _) => ends.source_array = known,
                (Field::DestinationMemory, _) => ends.destination_memory = known,
                (Field::SourceMemory, _) => ends.source_memory = known,
            }
        }
        // Of a batch, the sum stands in the place of the pointer to its terms.
        let bytes = size.bytes().filter(|_| self.args_known || !self.is_batch());
        event.size = bytes.map(u64::cast_signed);
        if self.effect == Effect::ArrayAlloc {
            event.count = event.count.or(size.elements());
        } else if self.effect == Effect::Copy {
            ends.fill(event, bytes);
        }
    }
}

/// The size of a call: the product of its factors.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    /// Of all but pitch and width; `None` where there is no factor yet.
    product: Option<u64>,
    /// A factor is not known.
    unknown: bool,
    /// Where the call chooses it: in place of the width.
    pitch: Option<u64>,
    width: Option<u64>,
    /// Rows times layers.
    rows: Option<u64>,
    /// Bytes of an array's element.
    element: Option<u64>,
    channel_bits: Option<u64>,
}

impl Size {
    fn factor(&mut self, field: Field, word: Option<u64>) {
        let Some(word) = word else {
            // A pitch is not known after a failure; the width tells what was asked for then.
            self.unknown |= field != Field::Pitch;
            return;
        };
        let times =
            |product: Option<u64>, factor: u64| Some(product.unwrap_or(1).saturating_mul(factor));
        match field {
            Field::Pitch => self.pitch = Some(word),
            Field::Width => self.width = Some(word),
            Field::Height | Field::Depth => self.rows = times(self.rows, word.max(1)),
            Field::ChannelBits => {
                let bits = (word & 0xffff_ffff) + (word >> 32);
                self.channel_bits = Some(self.channel_bits.unwrap_or(0) + bits);
            }
            Field::ArrayFormat => match element_bytes(word) {
                Some(bytes) => self.element = Some(bytes),
                None => self.unknown = true,
            },
            other => {
                if let Some(unit) = other.unit() {
                    self.product = times(self.product, word.saturating_mul(unit));
                }
            }
        }
    }

    fn elements(&self) -> Option<u64> {
        let width = self.width?;
        Some(width.saturating_mul(self.rows.unwrap_or(1)))
    }

    fn bytes(&self) -> Option<u64> {
        if self.unknown {
            return None;
        }
        let row = self.pitch.or(self.width);
        let element = self.element.or(self.channel_bits.map(|bits| bits / 8));
        let factors = [self.product, row, self.rows, element]
            .into_iter()
            .flatten();
        factors.reduce(u64::saturating_mul)
    }
}

/// What the ends of a copy are, beside addresses.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    destination_array: Option<u64>,
    source_array: Option<u64>,
    destination_memory: Option<u64>,
    source_memory: Option<u64>,
}

impl Ends {
    fn fill(self, event: &mut Event, extent: Option<u64>) {
        self.arrays(event, extent);
        self.memory_types(event);
    }

    /// The runtime's 3D copies: with an array at either end, the extent counts its elements.
    fn arrays(self, event: &mut Event, extent: Option<u64>) {
        let is_array = |array: &u64| *array != 0;
        let destination = self.destination_array.filter(is_array);
        let source = self.source_array.filter(is_array);
        if destination.is_some() {
            event.handle = destination;
            event.address = None;
        }
        if source.is_some() {
            event.related = source;
            event.source = None;
        }
        if destination.is_some() || source.is_some() {
            event.count = extent;
            event.size = None;
        }
    }

    /// The driver's 2D and 3D copies: each end says what kind of memory it is.
    fn memory_types(self, event: &mut Event) {
        let (Some(destination), Some(source)) = (self.destination_memory, self.source_memory)
        else {
            return;
        };
        if destination == MEMORY_ARRAY {
            event.handle = event.address.take();
        }
        if source == MEMORY_ARRAY {
            event.related = event.source.take();
        }
        event.copy_kind = match (source, destination) {
            (MEMORY_HOST, MEMORY_HOST) => Some(0),
            (MEMORY_HOST, MEMORY_DEVICE | MEMORY_ARRAY) => Some(1),
            (MEMORY_DEVICE | MEMORY_ARRAY, MEMORY_HOST) => Some(2),
            (MEMORY_DEVICE | MEMORY_ARRAY, MEMORY_DEVICE | MEMORY_ARRAY) => Some(3),
            (MEMORY_UNIFIED, _) | (_, MEMORY_UNIFIED) => Some(4),
            _ => None,
        };
    }
}

/// `CUmemorytype` (cuda.h).
const MEMORY_HOST: u64 = 1;
const MEMORY_DEVICE: u64 = 2;
const MEMORY_ARRAY: u64 = 3;
const MEMORY_UNIFIED: u64 = 4;

/// `cudaMemPoolAttrReleaseThreshold`, `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`.
const RELEASE_THRESHOLD: u64 = 4;

/// Bytes of an array element: `CUarray_format` and the number of channels. `None` for formats
/// of another layout (block-compressed, planar).
fn element_bytes(word: u64) -> Option<u64> {
    let channel = match word & 0xffff_ffff {
        // Unsigned and signed, 8, 16 and 32 bits; half and float (CUarray_format, cuda.h).
        0x01 | 0x08 => 1,
        0x02 | 0x09 | 0x10 => 2,
        0x03 | 0x0a | 0x20 => 4,
        _ => return None,
    };
    Some(channel * (word >> 32))
}

/// An `int` in the low half of a word.
fn int(word: u64) -> i32 {
    let [a, b, c, d, ..] = word.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// The ordinal in a `c10::Device` passed by value: low byte the device type (1 is CUDA),
/// next byte the index. `None` for another type (c10/core/Device.h, c10/core/DeviceType.h).
fn torch_device(word: u64) -> Option<i32> {
    let [device_type, index, ..] = word.to_le_bytes();
    (device_type == 1).then(|| i32::from(index.cast_signed()))
}
