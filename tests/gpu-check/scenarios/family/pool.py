"""Memory pools: allocation in stream order."""

import ctypes

from .calls import ANY, pointer, to
from .structures import DEVICE, FD, Location, PoolProperties

MIB = 1 << 20
THRESHOLD = 4  # cudaMemPoolAttrReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD

RUNTIME = {
    "default": "cudaDeviceGetDefaultMemPool", "get": "cudaDeviceGetMemPool", "set": "cudaDeviceSetMemPool",
    "create": "cudaMemPoolCreate", "destroy": "cudaMemPoolDestroy", "attribute": "cudaMemPoolSetAttribute",
    "trim": "cudaMemPoolTrimTo", "alloc": "cudaMallocAsync", "from": "cudaMallocFromPoolAsync",
    "free": "cudaFreeAsync", "wait": "cudaStreamSynchronize", "now alloc": "cudaMalloc", "now free": "cudaFree",
}
DRIVER = {
    "default": "cuDeviceGetDefaultMemPool", "get": "cuDeviceGetMemPool", "set": "cuDeviceSetMemPool",
    "create": "cuMemPoolCreate", "destroy": "cuMemPoolDestroy", "attribute": "cuMemPoolSetAttribute",
    "trim": "cuMemPoolTrimTo", "alloc": "cuMemAllocAsync", "from": "cuMemAllocFromPoolAsync",
    "free": "cuMemFreeAsync", "wait": "cuStreamSynchronize", "now alloc": "cuMemAlloc_v2", "now free": "cuMemFree_v2",
}


def pools(calls):
    for names in (RUNTIME, DRIVER):
        through_pools(calls, names)


def through_pools(calls, names):
    stream = calls.stream()
    default, present, own = pointer(), pointer(), pointer()
    calls.must(names["default"], to(default), 0, handle=default, device=0)
    calls(names["get"], to(present), 0, handle=present, device=0)
    properties = PoolProperties(type=1, handle_types=0, location=Location(DEVICE, 0))
    calls.must(names["create"], to(own), to(properties), handle=own, location=DEVICE, location_id=0)
    threshold = ctypes.c_uint64(64 * MIB)
    calls(names["attribute"], own, THRESHOLD, to(threshold), handle=own.value, option=THRESHOLD, size=threshold.value)
    calls(names["set"], 0, own, handle=own.value, device=0)
    calls(names["get"], to(present), 0, handle=present, device=0)

    def wait():
        calls(names["wait"], stream, stream=stream.value)

    def take(size):
        block = pointer()
        calls(names["alloc"], to(block), size, stream, address=block, size=size, stream=stream.value)
        return block

    def give(block, expect=(0,)):
        return calls(names["free"], block, stream, expect=expect, address=block.value or 0, stream=stream.value)

    # The device's pool is now our own.
    blocks = [take(size) for size in (1, 4096, 3 * MIB, 40 * MIB + 1)]
    for block in blocks:
        give(block)
    wait()
    block = pointer()
    calls(names["from"], to(block), 7 * MIB, default, stream, address=block, size=7 * MIB, related=default.value,
          stream=stream.value)
    give(block)
    wait()
    # Taken in stream order and freed at once; taken at once and freed in stream order.
    block = take(2 * MIB)
    wait()
    calls(names["now free"], block, address=block.value or 0)
    block = pointer()
    calls(names["now alloc"], to(block), 2 * MIB, address=block, size=2 * MIB)
    if give(block, expect=ANY) != 0:
        calls(names["now free"], block, address=block.value or 0)
    wait()
    calls(names["alloc"], to(block), 1 << 50, stream, expect=ANY, address=pointer(), size=1 << 50, stream=stream.value)
    for pool, keep in ((own, 0), (default, 0)):
        calls(names["trim"], pool, keep, handle=pool.value, size=keep)
    calls(names["set"], 0, default, handle=default.value, device=0)
    calls(names["destroy"], own, handle=own.value)
    calls.plain("cudaStreamDestroy", stream)


def shared_pool(calls):
    """A pool and two blocks that another process may open: (pool's descriptor, export data of each)."""
    stream, pool = calls.stream(), pointer()
    properties = PoolProperties(type=1, handle_types=FD, location=Location(DEVICE, 0))
    result = calls("cudaMemPoolCreate", to(pool), to(properties), expect=ANY, handle=pool, location=DEVICE, location_id=0)
    calls.feature("a pool for other processes", calls.attribute(119) & FD, result)
    if result != 0:
        return None
    descriptor, blocks, exported = ctypes.c_int(), [], []
    calls("cudaMemPoolExportToShareableHandle", to(descriptor), pool, FD, 0, handle=pool.value, option=FD)
    for allocate, export, size in (
        ("cudaMallocFromPoolAsync", "cudaMemPoolExportPointer", 2 * MIB),
        ("cuMemAllocFromPoolAsync", "cuMemPoolExportPointer", 4 * MIB),
    ):
        block, data = pointer(), (ctypes.c_ubyte * 64)()
        calls(allocate, to(block), size, pool, stream, address=block, size=size, related=pool.value, stream=stream.value)
        calls("cudaStreamSynchronize", stream, stream=stream.value)
        calls(export, data, block, address=block.value or 0)
        blocks.append(block)
        exported.append(bytes(data).hex())

    def close():
        for block in blocks:
            calls("cudaFreeAsync", block, stream, address=block.value or 0, stream=stream.value)
        calls("cudaStreamSynchronize", stream, stream=stream.value)
        calls("cudaMemPoolDestroy", pool, handle=pool.value)
        calls.plain("cudaStreamDestroy", stream)

    return {"descriptor": descriptor.value, "exported": exported, "close": close}
