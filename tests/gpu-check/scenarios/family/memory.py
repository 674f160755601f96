"""Device, managed, pinned and array memory."""

import ctypes
import mmap

from .calls import ANY, pointer, to
from .structures import Array3DDescription, ArrayDescription, ChannelFormat, Extent, PitchedPointer

KIB, MIB = 1 << 10, 1 << 20
# More than any device has.
TOO_LARGE = 1 << 50
OUT_OF_MEMORY, INVALID = 2, 1
SIZES = (1, 777, 4 * KIB, MIB, MIB + 1, 5 * MIB, (64 << 20) + 3)


def memory_info(calls):
    """What the device has free, by both libraries."""
    for api in ("cudaMemGetInfo", "cuMemGetInfo_v2"):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        calls(api, to(free), to(total), device_free=free, device_total=total)


def device(calls):
    """Blocks of many sizes, requests that fail, frees that fail."""
    memory_info(calls)
    for allocate, release in (("cudaMalloc", "cudaFree"), ("cuMemAlloc_v2", "cuMemFree_v2")):
        blocks = []
        for size in SIZES:
            block = pointer()
            calls(allocate, to(block), size, address=block, size=size)
            blocks.append(block)
            memory_info(calls)
        for _ in range(2):
            block = pointer()
            calls(allocate, to(block), TOO_LARGE, expect=(OUT_OF_MEMORY,), address=block, size=TOO_LARGE)
        for block in blocks:
            calls(release, block, address=block.value or 0)
        memory_info(calls)
        # Freed already.
        calls(release, blocks[-1], expect=(INVALID,), address=blocks[-1].value or 0)


def pitched(calls):
    """Rows that the device pads: the size is what was padded."""
    for width, height in ((1000, 33), (64, 1), (5000, 7)):
        block, pitch = pointer(), ctypes.c_size_t()
        size = lambda: pitch.value * height
        if calls("cudaMallocPitch", to(block), to(pitch), width, height, address=block, size=size) == 0:
            calls("cudaFree", block, address=block.value)
        if calls("cuMemAllocPitch_v2", to(block), to(pitch), width, height, 4, address=block, size=size) == 0:
            calls("cuMemFree_v2", block, address=block.value)
    cube = PitchedPointer()
    address = lambda: cube.address
    size = lambda: cube.pitch * 7 * 5
    if calls("cudaMalloc3D", to(cube), Extent(1000, 7, 5), address=address, size=size) == 0:
        calls("cudaFree", cube.address, address=cube.address)


def managed(calls):
    for allocate, release in (("cudaMallocManaged", "cudaFree"), ("cuMemAllocManaged", "cuMemFree_v2")):
        for size in (MIB, 3 * MIB + 5):
            block = pointer()
            result = calls(allocate, to(block), size, 1, expect=ANY, address=block, size=size, option=1)
            calls.feature(f"{allocate}, {size} bytes", calls.attribute(83), result)
            if result == 0:
                calls(release, block, address=block.value)


def pinned(calls):
    """Host memory from the driver, and the program's own made known to it."""
    families = [
        ("cudaMallocHost", None, "cudaFreeHost"), ("cuMemAllocHost_v2", None, "cuMemFreeHost"),
        *(("cudaHostAlloc", flags, "cudaFreeHost") for flags in (0, 1, 2, 4)),
        *(("cuMemHostAlloc", flags, "cuMemFreeHost") for flags in (0, 1, 2, 4)),
    ]
    for number, (allocate, flags, release) in enumerate(families):
        block, size = pointer(), (number + 1) * 300 * KIB
        option = () if flags is None else (flags,)
        told = {} if flags is None else {"option": flags}
        if calls(allocate, to(block), size, *option, address=block, size=size, **told) == 0:
            calls(release, block, address=block.value)
    with mmap.mmap(-1, 4 * MIB) as own:
        view = ctypes.c_char.from_buffer(own)
        address = ctypes.addressof(view)
        for register, unregister in (("cudaHostRegister", "cudaHostUnregister"), ("cuMemHostRegister_v2", "cuMemHostUnregister")):
            told = {"address": address, "size": 4 * MIB, "option": 0}
            calls(register, address, 4 * MIB, 0, **told)
            # Registered already.
            calls(register, address, 4 * MIB, 0, expect=(712,), **told)
            calls(unregister, address, address=address)
            calls(unregister, address, expect=(713,), address=address)
        del view


def arrays(calls):
    """Arrays: the bytes are those of their elements."""
    array, words = pointer(), ChannelFormat(8, 8, 8, 8, 1)
    for width, height in ((64, 32), (100, 0)):
        size = width * max(height, 1) * 4
        calls("cudaMallocArray", to(array), to(words), width, height, 0, handle=array, size=size)
        calls("cudaFreeArray", array, handle=array.value or 0)
    calls("cudaMalloc3DArray", to(array), to(words), Extent(16, 8, 4), 0, handle=array, size=16 * 8 * 4 * 4)
    calls("cudaFreeArray", array, handle=array.value or 0)
    calls("cudaMallocMipmappedArray", to(array), to(words), Extent(64, 64, 0), 3, 0, handle=array, count=3, size=None)
    calls("cudaFreeMipmappedArray", array, handle=array.value or 0)
    # Format 0x20 is float: 4 bytes a channel.
    flat, cube = ArrayDescription(64, 16, 0x20, 2), Array3DDescription(16, 8, 4, 0x20, 1, 0)
    calls("cuArrayCreate_v2", to(array), to(flat), handle=array, size=64 * 16 * 2 * 4)
    calls("cuArrayDestroy", array, handle=array.value or 0)
    calls("cuArray3DCreate_v2", to(array), to(cube), handle=array, size=16 * 8 * 4 * 4)
    calls("cuArrayDestroy", array, handle=array.value or 0)
    cube = Array3DDescription(64, 64, 0, 0x20, 1, 0)
    calls("cuMipmappedArrayCreate", to(array), to(cube), 3, handle=array, count=3, size=None)
    calls("cuMipmappedArrayDestroy", array, handle=array.value or 0)
