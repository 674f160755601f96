//! Where a function's arguments are, and what they mean.
//!
//! Places are those of the System V x86-64 ABI and of the structures of the CUDA 11.8, 12.9
//! and 13.5 headers, whose offsets were printed by a program compiled against each.

/// Most values that a call has.
pub const MAX_VALUES: usize = 10;

/// Values that fit into a plain [`crate::CallRecord`]; the rest follow in a
/// [`crate::LongCallRecord`].
pub const SHORT_VALUES: usize = 6;

/// One value of a call.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// Where it is.
    pub place: Place,
    /// What it means.
    pub field: Field,
}

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Place {
    /// How to get at it.
    pub kind: PlaceKind,
    /// Which argument: registers 0 to 5, or stack slots from 0. The value itself, if constant.
    pub argument: u8,
    /// Bytes behind the pointer that the argument is.
    pub offset: u16,
}

/// How to get at a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PlaceKind {
    /// The table itself states it.
    Constant = 0,
    /// A register, 64 bits.
    Register = 1,
    /// The lower half of a register: an `int`, an enum.
    RegisterInt = 2,
    /// A stack slot, 64 bits.
    Stack = 3,
    /// The lower half of a stack slot.
    StackInt = 4,
    /// Behind a pointer, at entry, 64 bits.
    Behind = 5,
    /// Behind a pointer, at entry, 32 bits.
    BehindInt = 6,
    /// Behind a pointer, at return, 64 bits; nothing where the pointer is null.
    Out = 7,
    /// Behind a pointer, at return, 32 bits.
    OutInt = 8,
    /// Behind a pointer, at return: [`fingerprint`] of 64 bytes.
    OutFingerprint = 9,
    /// By value on the stack, from a slot on: [`fingerprint`] of 64 bytes.
    StackFingerprint = 10,
    /// One end of a driver's 2D or 3D copy: behind the pointer lies a `CUmemorytype`, then
    /// the host pointer, the device pointer and the array, of which it names one
    /// (`CUDA_MEMCPY2D`, `CUDA_MEMCPY3D`, `CUDA_MEMCPY3D_PEER`).
    CopyEnd = 11,
}

impl PlaceKind {
    /// Whether the value is there only when the call returns.
    pub const fn is_out(self) -> bool {
        match self {
            Self::Out | Self::OutInt | Self::OutFingerprint => true,
            Self::Constant
            | Self::Register
            | Self::RegisterInt
            | Self::Stack
            | Self::StackInt
            | Self::Behind
            | Self::BehindInt
            | Self::StackFingerprint
            | Self::CopyEnd => false,
        }
    }
}

/// What a value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// The block, or a copy's destination.
    Address,
    /// A copy's source.
    Source,
    /// Bytes; one of several factors where a call has more of them.
    Size,
    /// Bytes a row takes, where a call chooses them: a factor in place of `Width`.
    Pitch,
    /// Bytes of a row: a factor.
    Width,
    /// Rows: a factor; 0 stands for 1.
    Height,
    /// Layers: a factor; 0 stands for 1.
    Depth,
    /// Elements of 2 bytes: a factor.
    Halves,
    /// Elements of 4 bytes: a factor.
    Words,
    /// Bits of an array element's channels x (low half) and y, or z and w:
    /// `cudaChannelFormatDesc`.
    ChannelBits,
    /// An array element: `CUarray_format` (low half) and the number of channels.
    ArrayFormat,
    /// The array that is a 3D copy's destination, 0 for none: then the extent counts bytes,
    /// else elements.
    DestinationArray,
    /// Likewise its source.
    SourceArray,
    /// `CUmemorytype` of a copy's destination: 1 host, 2 device, 3 array, 4 unified.
    DestinationMemory,
    /// Likewise of its source.
    SourceMemory,
    /// `cudaMemcpyKind`.
    CopyKind,
    /// `cudaStream_t`, `CUstream`.
    Stream,
    /// What the call is about: event, graph exec, module, pool, physical memory...
    Handle,
    /// A second such thing: the graph of an exec, the pool of an allocation...
    Related,
    /// The context of a peer copy's destination.
    Context,
    /// The context of its source.
    SourceContext,
    /// Device ordinal.
    Device,
    /// Device ordinal of a peer copy's source.
    SourceDevice,
    /// `CUmemLocationType`: 1 device, 2 host, 3 host NUMA node, 4 the current node.
    LocationType,
    /// Device ordinal or NUMA node.
    LocationId,
    /// Bytes into an allocation.
    Offset,
    /// Nodes of a graph, copies of a batch, devices of a team.
    Count,
    /// Flags, mode, attribute or handle type.
    Option,
    /// The value of a memory pool's attribute: bytes, where `Option` is 4, the release
    /// threshold (`cudaMemPoolAttrReleaseThreshold`).
    PoolValue,
    /// Free bytes of the device.
    DeviceFree,
    /// Bytes of the device in all.
    DeviceTotal,
    /// Bytes 0 to 7 of a device's UUID.
    UuidLow,
    /// Bytes 8 to 15.
    UuidHigh,
    /// Characters 0 to 7 of a device's PCI bus id.
    PciLow,
    /// Characters 8 to 15.
    PciHigh,
}

impl Field {
    /// Bytes that one unit of this factor of a size stands for; `None` for what is no factor.
    pub const fn unit(self) -> Option<u64> {
        match self {
            Self::Size | Self::Pitch | Self::Width | Self::Height | Self::Depth => Some(1),
            Self::Halves => Some(2),
            Self::Words => Some(4),
            Self::Address
            | Self::Source
            | Self::ChannelBits
            | Self::ArrayFormat
            | Self::DestinationArray
            | Self::SourceArray
            | Self::DestinationMemory
            | Self::SourceMemory
            | Self::CopyKind
            | Self::Stream
            | Self::Handle
            | Self::Related
            | Self::Context
            | Self::SourceContext
            | Self::Device
            | Self::SourceDevice
            | Self::LocationType
            | Self::LocationId
            | Self::Offset
            | Self::Count
            | Self::Option
            | Self::PoolValue
            | Self::DeviceFree
            | Self::DeviceTotal
            | Self::UuidLow
            | Self::UuidHigh
            | Self::PciLow
            | Self::PciHigh => None,
        }
    }
}

/// 64 bits that stand for 64 bytes which another process shows in turn: the handle of an
/// exported allocation. FNV-1a over words, with a last mix.
pub const fn fingerprint(words: [u64; 8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut index = 0;
    while index < words.len() {
        hash = (hash ^ words[index]).wrapping_mul(0x0000_0100_0000_01b3);
        hash ^= hash >> 29;
        index += 1;
    }
    hash
}

const fn value(kind: PlaceKind, argument: u8, offset: u16, field: Field) -> Value {
    Value {
        place: Place {
            kind,
            argument,
            offset,
        },
        field,
    }
}

/// What the table itself states.
pub(crate) const fn constant(number: u8, field: Field) -> Value {
    value(PlaceKind::Constant, number, 0, field)
}

/// Argument `n`, in a register.
pub(crate) const fn arg(n: u8, field: Field) -> Value {
    value(PlaceKind::Register, n, 0, field)
}

/// Argument `n`, 32 bits in a register.
pub(crate) const fn int(n: u8, field: Field) -> Value {
    value(PlaceKind::RegisterInt, n, 0, field)
}

/// Stack slot `n`.
pub(crate) const fn stack(n: u8, field: Field) -> Value {
    value(PlaceKind::Stack, n, 0, field)
}

/// 32 bits in stack slot `n`.
pub(crate) const fn stack_int(n: u8, field: Field) -> Value {
    value(PlaceKind::StackInt, n, 0, field)
}

/// `offset` bytes behind argument `n`.
pub(crate) const fn behind(n: u8, offset: u16, field: Field) -> Value {
    value(PlaceKind::Behind, n, offset, field)
}

/// 32 bits, `offset` bytes behind argument `n`.
pub(crate) const fn behind_int(n: u8, offset: u16, field: Field) -> Value {
    value(PlaceKind::BehindInt, n, offset, field)
}

/// What the call leaves behind argument `n`.
pub(crate) const fn out(n: u8, field: Field) -> Value {
    value(PlaceKind::Out, n, 0, field)
}

/// What the call leaves `offset` bytes behind argument `n`.
pub(crate) const fn out_at(n: u8, offset: u16, field: Field) -> Value {
    value(PlaceKind::Out, n, offset, field)
}

/// 32 bits that the call leaves behind argument `n`.
pub(crate) const fn out_int(n: u8, field: Field) -> Value {
    value(PlaceKind::OutInt, n, 0, field)
}

/// The fingerprint of the 64 bytes that the call leaves behind argument `n`.
pub(crate) const fn out_fingerprint(n: u8, field: Field) -> Value {
    value(PlaceKind::OutFingerprint, n, 0, field)
}

/// The fingerprint of the 64 bytes by value from stack slot `n` on.
pub(crate) const fn stack_fingerprint(n: u8, field: Field) -> Value {
    value(PlaceKind::StackFingerprint, n, 0, field)
}

/// The copy end that `offset` bytes behind argument `n` name.
pub(crate) const fn copy_end(n: u8, offset: u16, field: Field) -> Value {
    value(PlaceKind::CopyEnd, n, offset, field)
}

/// What kinds of values a call's size is a product of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeFactors {
    /// Bit n: value n is a factor.
    pub mask: u16,
    /// Bytes a unit of the product.
    pub unit: u8,
}

/// The factors of a size among `values`, as they are once the call succeeded; none where it
/// has none, or where the extent may count elements.
pub const fn size_factors(values: &[Value]) -> SizeFactors {
    let (mut mask, mut unit, mut has_pitch, mut index) = (0u16, 1u64, false, 0);
    while index < values.len() {
        let field = values[index].field;
        has_pitch |= matches!(field, Field::Pitch);
        if matches!(
            field,
            Field::ChannelBits | Field::ArrayFormat | Field::SourceArray | Field::DestinationArray
        ) {
            return SizeFactors { mask: 0, unit: 1 };
        }
        if let Some(bytes) = field.unit() {
            mask |= 1 << index;
            unit *= bytes;
        }
        index += 1;
    }
    index = 0;
    while has_pitch && index < values.len() {
        if matches!(values[index].field, Field::Width) {
            mask &= !(1 << index);
        }
        index += 1;
    }
    // A unit is 1, 2 or 4.
    SizeFactors {
        mask,
        unit: (unit & 0xff) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_differ_by_any_bit() {
        let bytes = [1u64, 2, 3, 4, 5, 6, 7, 8];
        for word in 0..8 {
            for bit in 0..64 {
                let mut other = bytes;
                other[word] ^= 1 << bit;
                assert_ne!(fingerprint(bytes), fingerprint(other));
            }
        }
    }

    #[test]
    fn a_chosen_pitch_stands_in_for_the_width() {
        let factors = size_factors(&[
            out(0, Field::Address),
            out(1, Field::Pitch),
            arg(2, Field::Width),
            arg(3, Field::Height),
        ]);
        assert_eq!(
            factors,
            SizeFactors {
                mask: 0b1010,
                unit: 1
            }
        );
    }
}
