"""Contexts, and which device is which."""

import ctypes

from .calls import ANY, pointer, to

PROPERTIES_BYTES = 4096


def contexts(calls):
    """The primary context, pushed, popped and chosen; two contexts of our own."""
    primary, popped = pointer(), pointer()
    calls.must("cudaSetDevice", 0, device=0)
    calls.must("cuDevicePrimaryCtxRetain", to(primary), 0, handle=primary, device=0)
    calls("cuCtxPushCurrent_v2", primary, handle=primary.value)
    calls("cuCtxPopCurrent_v2", to(popped), handle=popped)
    calls("cuCtxSetCurrent", primary, handle=primary.value)
    for api, arguments in (("cuCtxCreate_v2", (0, 0)), ("cuCtxCreate_v4", (0, 0, 0))):
        own, block = pointer(), pointer()
        if calls(api, to(own), *arguments, handle=own, device=0) != 0:
            continue
        calls("cuMemAlloc_v2", to(block), 1 << 20, address=block, size=1 << 20)
        calls("cuCtxSynchronize")
        calls("cuCtxSynchronize_v2", own, handle=own.value)
        # Its memory goes with it.
        calls("cuCtxDestroy_v2", own, handle=own.value)
        calls.must("cuCtxSetCurrent", primary, handle=primary.value)
    calls("cuDevicePrimaryCtxRelease_v2", 0, device=0)
    calls("cudaSetDevice", 1 << 20, expect=(101,), device=1 << 20)
    return primary


def identity(calls):
    """UUID and PCI bus id, as every call that tells them has it."""
    uuid, bus = (ctypes.c_ubyte * 16)(), ctypes.create_string_buffer(64)
    told = {"uuids": [], "buses": []}
    for api in ("cuDeviceGetUuid", "cuDeviceGetUuid_v2"):
        if calls(api, uuid, 0, device=0) == 0:
            told["uuids"].append(uuid_text(bytes(uuid)))
    properties = ctypes.create_string_buffer(PROPERTIES_BYTES)
    if calls("cudaGetDeviceProperties", properties, 0, device=0) == 0:
        told["uuids"].append(uuid_text(properties.raw[256:272]))
    for api in ("cuDeviceGetPCIBusId", "cudaDeviceGetPCIBusId"):
        if calls(api, bus, len(bus), 0, device=0) == 0:
            told["buses"].append(bus.value.decode("ascii"))
    return told


def reset(calls):
    """The end: the primary context and all its memory go."""
    block = pointer()
    calls("cudaMalloc", to(block), 1 << 20, address=block, size=1 << 20)
    calls("cudaDeviceReset")
    calls("cuDevicePrimaryCtxReset_v2", 0, expect=ANY, device=0)


def uuid_text(raw):
    """As nvidia-smi has it."""
    digits = raw.hex()
    return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
