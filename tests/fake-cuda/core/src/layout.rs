//! Structures that cross the libraries' borders, as laid out in the CUDA 11.8, 12.9 and 13.5
//! headers. Fields that nothing here looks at are there for their room.

use std::ffi::c_void;

/// `cudaExtent`: passed by value on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Extent {
    /// Bytes, or elements of an array.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Layers.
    pub depth: usize,
}

/// `cudaPitchedPtr`: passed by value on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PitchedPointer {
    /// The first row.
    pub address: u64,
    /// Bytes from row to row.
    pub pitch: usize,
    /// Bytes of a row that are used.
    pub row: usize,
    /// Rows of a layer.
    pub rows: usize,
}

/// `cudaPos`: an offset.
pub type Position = [usize; 3];

/// `CUmemLocation`: where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Location {
    /// 1 a device, 2 the host, 3 a NUMA node of the host, 4 the nearest one.
    pub kind: i32,
    /// Which one.
    pub id: i32,
}

impl Location {
    /// `CU_MEM_LOCATION_TYPE_DEVICE`
    pub const DEVICE: i32 = 1;
}

/// `CUmemAllocationProp`: 32 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AllocationProperties {
    /// 1: pinned.
    pub kind: i32,
    /// Bits of handle types that the memory can be exported as.
    pub handle_types: i32,
    /// Where it is.
    pub location: Location,
    /// Windows only.
    pub security: *const c_void,
    /// Compression and the like.
    pub flags: [u8; 8],
}

/// `CUmemPoolProps`, `cudaMemPoolProps`: 88 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PoolProperties {
    /// 1: pinned.
    pub kind: i32,
    /// Bits of handle types that the pool can be exported as.
    pub handle_types: i32,
    /// Where its memory is.
    pub location: Location,
    /// Windows only.
    pub security: *const c_void,
    /// Bytes at most; 0 for the device's.
    pub limit: usize,
    /// Usage and reserved.
    pub rest: [u8; 56],
}

/// `CUmemAccessDesc`: 12 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AccessDescription {
    /// Who may.
    pub location: Location,
    /// 0 nothing, 1 read, 3 read and write.
    pub flags: i32,
}

/// `CUmulticastObjectProp`: 32 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MulticastProperties {
    /// Devices of the team.
    pub devices: u32,
    /// Bytes of each.
    pub size: usize,
    /// Bits of handle types that it can be exported as.
    pub handle_types: u64,
    /// None are defined.
    pub flags: u64,
}

/// 64 bytes that stand for memory, to be handed to another process: `cudaIpcMemHandle_t`,
/// `CUmemPoolPtrExportData`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct SharedHandle(pub [u64; 8]);

/// `CUDA_ARRAY_DESCRIPTOR`: 24 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ArrayDescriptor {
    /// Elements of a row.
    pub width: usize,
    /// Rows; 0 for one.
    pub height: usize,
    /// `CUarray_format`.
    pub format: i32,
    /// Channels of an element.
    pub channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`: 40 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Array3DDescriptor {
    /// Elements of a row.
    pub width: usize,
    /// Rows; 0 for one.
    pub height: usize,
    /// Layers; 0 for one.
    pub depth: usize,
    /// `CUarray_format`.
    pub format: i32,
    /// Channels of an element.
    pub channels: u32,
    /// `CUDA_ARRAY3D_LAYERED` and the like.
    pub flags: u32,
}

/// `cudaChannelFormatDesc`: bits of each channel, and what they mean.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ChannelFormat {
    /// Bits of x, y, z and w.
    pub bits: [i32; 4],
    /// 0 signed, 1 unsigned, 2 float.
    pub kind: i32,
}

/// One end of a `CUDA_MEMCPY2D`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CopyEnd2D {
    /// First byte of a row, first row.
    pub position: [usize; 2],
    /// `CUmemorytype`: 1 host, 2 device, 3 array, 4 unified.
    pub memory: u32,
    /// For memory type 1.
    pub host: u64,
    /// For memory types 2 and 4.
    pub device: u64,
    /// For memory type 3.
    pub array: usize,
    /// Bytes from row to row.
    pub pitch: usize,
}

/// `CUDA_MEMCPY2D`: 128 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Copy2D {
    /// From here.
    pub source: CopyEnd2D,
    /// To there.
    pub destination: CopyEnd2D,
    /// Bytes of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// One end of a `CUDA_MEMCPY3D` or `CUDA_MEMCPY3D_PEER`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CopyEnd3D {
    /// First byte of a row, first row, first layer.
    pub position: Position,
    /// Level of detail: 0.
    pub level: usize,
    /// `CUmemorytype`: 1 host, 2 device, 3 array, 4 unified.
    pub memory: u32,
    /// For memory type 1.
    pub host: u64,
    /// For memory types 2 and 4.
    pub device: u64,
    /// For memory type 3.
    pub array: usize,
    /// A peer copy's context.
    pub context: usize,
    /// Bytes from row to row.
    pub pitch: usize,
    /// Rows from layer to layer.
    pub height: usize,
}

/// `CUDA_MEMCPY3D`, `CUDA_MEMCPY3D_PEER`: 200 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Copy3D {
    /// From here.
    pub source: CopyEnd3D,
    /// To there.
    pub destination: CopyEnd3D,
    /// Bytes of a row, rows and layers.
    pub extent: Extent,
}

/// One end of a `cudaMemcpy3DParms`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RuntimeCopyEnd {
    /// An array, or null for `pointer`.
    pub array: usize,
    /// Where in it.
    pub position: Position,
    /// Memory in rows.
    pub pointer: PitchedPointer,
}

/// `cudaMemcpy3DParms`: 160 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RuntimeCopy3D {
    /// From here.
    pub source: RuntimeCopyEnd,
    /// To there.
    pub destination: RuntimeCopyEnd,
    /// Bytes (elements, with an array) of a row, rows and layers.
    pub extent: Extent,
    /// `cudaMemcpyKind`
    pub kind: i32,
}

/// `cudaMemcpy3DPeerParms`: 168 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RuntimeCopy3DPeer {
    /// From here.
    pub source: RuntimeCopyEnd,
    /// On this device.
    pub source_device: i32,
    /// To there.
    pub destination: RuntimeCopyEnd,
    /// On that device.
    pub destination_device: i32,
    /// Bytes (elements, with an array) of a row, rows and layers.
    pub extent: Extent,
}

/// One end of a [`BatchCopy3D`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BatchEnd {
    /// 1 memory, 2 array.
    pub kind: i32,
    /// The memory or array.
    pub address: u64,
    /// Row length and layer height, or the offset into an array.
    pub shape: [usize; 2],
    /// A hint.
    pub location: Location,
}

/// `CUDA_MEMCPY3D_BATCH_OP`, `cudaMemcpy3DBatchOp`: 112 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BatchCopy3D {
    /// From here.
    pub source: BatchEnd,
    /// To there.
    pub destination: BatchEnd,
    /// Bytes of a row, rows and layers.
    pub extent: Extent,
    /// Order of access to the source.
    pub order: i32,
    /// Hints.
    pub flags: u32,
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`, `cudaMemAllocNodeParams`: 120 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AllocationNode {
    /// Where the memory is to be.
    pub pool: PoolProperties,
    /// Who else may use it.
    pub access: *const AccessDescription,
    /// How many of those.
    pub access_count: usize,
    /// Bytes.
    pub size: usize,
    /// The address, which the call stores.
    pub address: u64,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<AllocationProperties>() == 32 && size_of::<PoolProperties>() == 88);
    assert!(size_of::<AccessDescription>() == 12 && size_of::<MulticastProperties>() == 32);
    assert!(size_of::<ArrayDescriptor>() == 24 && size_of::<Array3DDescriptor>() == 40);
    assert!(size_of::<Copy2D>() == 128 && size_of::<Copy3D>() == 200);
    assert!(size_of::<RuntimeCopy3D>() == 160 && size_of::<RuntimeCopy3DPeer>() == 168);
    assert!(size_of::<BatchCopy3D>() == 112 && size_of::<AllocationNode>() == 120);
    assert!(offset_of!(RuntimeCopy3D, extent) == 128 && offset_of!(RuntimeCopy3D, kind) == 152);
    assert!(offset_of!(RuntimeCopy3DPeer, destination_device) == 136);
    assert!(offset_of!(Copy3D, extent) == 176 && offset_of!(Copy2D, width) == 112);
    assert!(offset_of!(AllocationNode, size) == 104 && offset_of!(BatchCopy3D, extent) == 80);
};
