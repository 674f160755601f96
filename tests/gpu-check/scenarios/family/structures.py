"""Structures of cuda.h and driver_types.h, CUDA 13."""

import ctypes
from ctypes import Structure, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

DEVICE, HOST, HOST_NUMA = 1, 2, 3  # CUmemLocationType
FD = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
READ_WRITE = 3
HOST_MEMORY, DEVICE_MEMORY, ARRAY_MEMORY, UNIFIED_MEMORY = 1, 2, 3, 4  # CUmemorytype


class Location(Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class AllocationProperties(Structure):
    """CUmemAllocationProp."""

    _fields_ = [("type", c_int), ("handle_types", c_int), ("location", Location), ("metadata", c_void_p),
                ("flags", ctypes.c_ubyte * 8)]


class AccessDescription(Structure):
    """CUmemAccessDesc."""

    _fields_ = [("location", Location), ("flags", c_int)]


class PoolProperties(Structure):
    """cudaMemPoolProps, CUmemPoolProps."""

    _fields_ = [("type", c_int), ("handle_types", c_int), ("location", Location), ("attributes", c_void_p),
                ("max_size", c_size_t), ("reserved", ctypes.c_ubyte * 56)]


class AllocationNode(Structure):
    """cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS."""

    _fields_ = [("pool", PoolProperties), ("access", c_void_p), ("access_count", c_size_t), ("size", c_size_t),
                ("address", c_void_p)]


class Extent(Structure):
    """cudaExtent."""

    _fields_ = [("width", c_size_t), ("height", c_size_t), ("depth", c_size_t)]


class PitchedPointer(Structure):
    """cudaPitchedPtr."""

    _fields_ = [("address", c_void_p), ("pitch", c_size_t), ("width", c_size_t), ("height", c_size_t)]


class ChannelFormat(Structure):
    """cudaChannelFormatDesc; kind 1 is unsigned."""

    _fields_ = [("x", c_int), ("y", c_int), ("z", c_int), ("w", c_int), ("kind", c_int)]


class ArrayDescription(Structure):
    """CUDA_ARRAY_DESCRIPTOR."""

    _fields_ = [("width", c_size_t), ("height", c_size_t), ("format", c_uint), ("channels", c_uint)]


class Array3DDescription(Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = [("width", c_size_t), ("height", c_size_t), ("depth", c_size_t), ("format", c_uint),
                ("channels", c_uint), ("flags", c_uint)]


class End3D(Structure):
    """One end of cudaMemcpy3DParms."""

    _fields_ = [("array", c_void_p), ("position", Extent), ("pointer", PitchedPointer)]


class Copy3D(Structure):
    """cudaMemcpy3DParms."""

    _fields_ = [("source", End3D), ("destination", End3D), ("extent", Extent), ("kind", c_int)]


class PeerEnd3D(Structure):
    """One end of cudaMemcpy3DPeerParms."""

    _fields_ = [*End3D._fields_, ("device", c_int)]


class PeerCopy3D(Structure):
    """cudaMemcpy3DPeerParms."""

    _fields_ = [("source", PeerEnd3D), ("destination", PeerEnd3D), ("extent", Extent)]


class DriverEnd2D(Structure):
    """One end of CUDA_MEMCPY2D."""

    _fields_ = [("x", c_size_t), ("y", c_size_t), ("memory", c_uint), ("host", c_void_p), ("device", c_void_p),
                ("array", c_void_p), ("pitch", c_size_t)]


class DriverCopy2D(Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = [("source", DriverEnd2D), ("destination", DriverEnd2D), ("width", c_size_t), ("height", c_size_t)]


class DriverEnd3D(Structure):
    """One end of CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER; the context is reserved in the former."""

    _fields_ = [("x", c_size_t), ("y", c_size_t), ("z", c_size_t), ("level", c_size_t), ("memory", c_uint),
                ("host", c_void_p), ("device", c_void_p), ("array", c_void_p), ("context", c_void_p),
                ("pitch", c_size_t), ("height", c_size_t)]


class DriverCopy3D(Structure):
    """CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER."""

    _fields_ = [("source", DriverEnd3D), ("destination", DriverEnd3D), ("width", c_size_t), ("height", c_size_t),
                ("depth", c_size_t)]


class CopyAttributes(Structure):
    """cudaMemcpyAttributes, CUmemcpyAttributes; order 1 is that of the stream."""

    _fields_ = [("order", c_int), ("source", Location), ("destination", Location), ("flags", c_uint)]


class Operand(Structure):
    """cudaMemcpy3DOperand, CUmemcpy3DOperand, of a pointer (type 1)."""

    _fields_ = [("type", c_int), ("address", c_void_p), ("row", c_size_t), ("layer", c_size_t), ("hint", Location)]


class BatchOperation(Structure):
    """cudaMemcpy3DBatchOp, CUDA_MEMCPY3D_BATCH_OP."""

    _fields_ = [("source", Operand), ("destination", Operand), ("extent", Extent), ("order", c_int), ("flags", c_uint)]


class Dim3(Structure):
    """dim3."""

    _fields_ = [("x", c_uint), ("y", c_uint), ("z", c_uint)]


class LaunchConfiguration(Structure):
    """cudaLaunchConfig_t."""

    _fields_ = [("grid", Dim3), ("block", Dim3), ("shared", c_size_t), ("stream", c_void_p), ("attributes", c_void_p),
                ("count", c_uint)]


class DriverLaunchConfiguration(Structure):
    """CUlaunchConfig."""

    _fields_ = [("grid", Dim3), ("block", Dim3), ("shared", c_uint), ("stream", c_void_p), ("attributes", c_void_p),
                ("count", c_uint)]


class InstantiateParameters(Structure):
    """cudaGraphInstantiateParams, CUDA_GRAPH_INSTANTIATE_PARAMS."""

    _fields_ = [("flags", c_ulonglong), ("stream", c_void_p), ("error_node", c_void_p), ("result", c_int)]


class Bytes64(Structure):
    """cudaIpcMemHandle_t, cudaMemPoolPtrExportData."""

    _fields_ = [("bytes", ctypes.c_ubyte * 64)]
