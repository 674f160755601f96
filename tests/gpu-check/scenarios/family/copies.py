"""Copies of every form and direction, with pageable and pinned host memory."""

import ctypes

from .calls import pointer, to
from .structures import (
    ARRAY_MEMORY, DEVICE_MEMORY, HOST_MEMORY, UNIFIED_MEMORY, BatchOperation, ArrayDescription, ChannelFormat, Copy3D,
    CopyAttributes, DriverCopy2D, DriverCopy3D, Extent, Location, Operand, PeerCopy3D, PitchedPointer,
)

SIZE = 1 << 20
TO_DEVICE, TO_HOST, WITHIN, BY_ADDRESS = 1, 2, 3, 4
# A row of 256 bytes, 48 of them, in layers of 16.
PITCH, WIDTH, HEIGHT, LAYERS = 512, 256, 16, 3


class Places:
    """Memory on both sides, taken by calls that are part of the truth."""

    def __init__(self, calls, context):
        self.calls, self.context, self.stream = calls, context, calls.stream()
        self.device, self.other, self.pinned = pointer(), pointer(), pointer()
        for block in (self.device, self.other):
            calls.must("cudaMalloc", to(block), SIZE, address=block, size=SIZE)
        calls.must("cudaMallocHost", to(self.pinned), SIZE, address=self.pinned, size=SIZE)
        self.buffer = (ctypes.c_ubyte * SIZE)()
        self.pageable = ctypes.addressof(self.buffer)

    def wait(self):
        self.calls("cudaStreamSynchronize", self.stream, stream=self.stream.value)

    def close(self):
        for block in (self.device, self.other):
            self.calls("cudaFree", block, address=block.value)
        self.calls("cudaFreeHost", self.pinned, address=self.pinned.value)
        self.calls.plain("cudaStreamDestroy", self.stream)


def copies(calls, context):
    places = Places(calls, context)
    for part in (linear, peer, rows_and_layers, with_arrays, driver_linear, driver_rows_and_layers, driver_with_arrays, batches):
        part(calls, places)
        places.wait()
    places.close()


def directions(places):
    """(destination, source, cudaMemcpyKind)."""
    device, other = places.device.value, places.other.value
    for host in (places.pageable, places.pinned.value):
        yield device, host, TO_DEVICE
        yield host, device, TO_HOST
    yield other, device, WITHIN
    yield device, places.pageable, BY_ADDRESS
    yield places.pinned.value, places.pageable, 0


def linear(calls, places):
    stream = places.stream
    for number, (destination, source, kind) in enumerate(directions(places)):
        told = {"address": destination, "source": source, "size": SIZE - number, "copy_kind": kind}
        calls("cudaMemcpy", destination, source, SIZE - number, kind, **told)
        calls("cudaMemcpyAsync", destination, source, SIZE - number, kind, stream, stream=stream.value, **told)
    # No such kind.
    told = {"address": places.other.value, "source": places.device.value, "size": 64, "copy_kind": 77}
    calls("cudaMemcpy", places.other, places.device, 64, 77, expect=(21,), **told)


def peer(calls, places):
    """Between devices, both of them this one."""
    destination, source, stream, context = places.other.value, places.device.value, places.stream, places.context
    told = {"address": destination, "source": source, "size": 4096, "copy_kind": WITHIN}
    devices = {"device": 0, "source_device": 0}
    contexts = {"handle": context.value, "related": context.value}
    calls("cudaMemcpyPeer", destination, 0, source, 0, 4096, **told, **devices)
    calls("cudaMemcpyPeerAsync", destination, 0, source, 0, 4096, stream, stream=stream.value, **told, **devices)
    calls("cuMemcpyPeer", destination, context, source, context, 4096, **told, **contexts)
    calls("cuMemcpyPeerAsync", destination, context, source, context, 4096, stream, stream=stream.value, **told, **contexts)


def rows_and_layers(calls, places):
    stream = places.stream
    for destination, source, kind in directions(places):
        told = {"address": destination, "source": source, "copy_kind": kind}
        flat = {"size": WIDTH * HEIGHT, **told}
        calls("cudaMemcpy2D", destination, PITCH, source, PITCH, WIDTH, HEIGHT, kind, **flat)
        calls("cudaMemcpy2DAsync", destination, PITCH, source, PITCH, WIDTH, HEIGHT, kind, stream, stream=stream.value, **flat)
        parameters = Copy3D(extent=Extent(WIDTH, HEIGHT, LAYERS), kind=kind)
        parameters.source.pointer = PitchedPointer(source, PITCH, WIDTH, HEIGHT)
        parameters.destination.pointer = PitchedPointer(destination, PITCH, WIDTH, HEIGHT)
        deep = {"size": WIDTH * HEIGHT * LAYERS, **told}
        calls("cudaMemcpy3D", to(parameters), **deep)
        calls("cudaMemcpy3DAsync", to(parameters), stream, stream=stream.value, **deep)
    parameters = PeerCopy3D(extent=Extent(WIDTH, HEIGHT, LAYERS))
    parameters.source.pointer = PitchedPointer(places.device.value, PITCH, WIDTH, HEIGHT)
    parameters.destination.pointer = PitchedPointer(places.other.value, PITCH, WIDTH, HEIGHT)
    told = {"address": places.other.value, "source": places.device.value, "size": WIDTH * HEIGHT * LAYERS,
            "device": 0, "source_device": 0}
    calls("cudaMemcpy3DPeer", to(parameters), **told)
    calls("cudaMemcpy3DPeerAsync", to(parameters), stream, stream=stream.value, **told)


def with_arrays(calls, places):
    """The runtime's copies to and from arrays of 256 bytes by 16."""
    stream, one, other = places.stream, pointer(), pointer()
    words = ChannelFormat(8, 8, 8, 8, 1)
    for array in (one, other):
        calls.must("cudaMallocArray", to(array), to(words), WIDTH // 4, HEIGHT, 0, handle=array, size=WIDTH * HEIGHT)
    size, host, device = WIDTH * HEIGHT, places.pageable, places.device.value
    in_stream = {"stream": stream.value}

    def to_array(source, kind):
        told = {"handle": one.value, "source": source, "size": size, "copy_kind": kind}
        calls("cudaMemcpy2DToArray", one, 0, 0, source, PITCH, WIDTH, HEIGHT, kind, **told)
        calls("cudaMemcpy2DToArrayAsync", one, 0, 0, source, PITCH, WIDTH, HEIGHT, kind, stream, **told, **in_stream)
        calls("cudaMemcpyToArray", one, 0, 0, source, size, kind, **told)
        calls("cudaMemcpyToArrayAsync", one, 0, 0, source, size, kind, stream, **told, **in_stream)

    def from_array(destination, kind):
        told = {"address": destination, "related": one.value, "size": size, "copy_kind": kind}
        calls("cudaMemcpy2DFromArray", destination, PITCH, one, 0, 0, WIDTH, HEIGHT, kind, **told)
        calls("cudaMemcpy2DFromArrayAsync", destination, PITCH, one, 0, 0, WIDTH, HEIGHT, kind, stream, **told, **in_stream)
        calls("cudaMemcpyFromArray", destination, one, 0, 0, size, kind, **told)
        calls("cudaMemcpyFromArrayAsync", destination, one, 0, 0, size, kind, stream, **told, **in_stream)

    to_array(host, TO_DEVICE)
    to_array(device, WITHIN)
    from_array(host, TO_HOST)
    from_array(device, WITHIN)
    told = {"handle": other.value, "related": one.value, "size": size, "copy_kind": WITHIN}
    calls("cudaMemcpy2DArrayToArray", other, 0, 0, one, 0, 0, WIDTH, HEIGHT, WITHIN, **told)
    calls("cudaMemcpyArrayToArray", other, 0, 0, one, 0, 0, size, WITHIN, **told)
    # With an array at an end, the extent counts elements, of 4 bytes each.
    parameters = Copy3D(extent=Extent(WIDTH // 4, HEIGHT, 1), kind=TO_DEVICE)
    parameters.source.pointer = PitchedPointer(host, PITCH, WIDTH, HEIGHT)
    parameters.destination.array = one
    told = {"handle": one.value, "source": host, "address": None, "size": size, "count": WIDTH // 4 * HEIGHT, "copy_kind": TO_DEVICE}
    calls("cudaMemcpy3D", to(parameters), **told)
    for array in (one, other):
        calls("cudaFreeArray", array, handle=array.value)


def driver_linear(calls, places):
    stream = places.stream
    in_stream = {"stream": stream.value}
    names = {TO_DEVICE: "cuMemcpyHtoD", TO_HOST: "cuMemcpyDtoH", WITHIN: "cuMemcpyDtoD"}
    for number, (destination, source, kind) in enumerate(directions(places)):
        size = SIZE // 2 - number
        told = {"address": destination, "source": source, "size": size}
        calls("cuMemcpy", destination, source, size, copy_kind=BY_ADDRESS, **told)
        calls("cuMemcpyAsync", destination, source, size, stream, copy_kind=BY_ADDRESS, **told, **in_stream)
        if name := names.get(kind):
            calls(f"{name}_v2", destination, source, size, copy_kind=kind, **told)
            calls(f"{name}Async_v2", destination, source, size, stream, copy_kind=kind, **told, **in_stream)


def driver_end(end, memory, address):
    end.memory = memory
    if memory == HOST_MEMORY:
        end.host = address
    else:
        end.device = address
    end.pitch = PITCH


def driver_rows_and_layers(calls, places):
    stream, context = places.stream, places.context
    device, host = places.device.value, places.pageable
    in_stream = {"stream": stream.value}
    for source, source_memory, destination, destination_memory, kind in (
        (host, HOST_MEMORY, device, DEVICE_MEMORY, TO_DEVICE), (device, DEVICE_MEMORY, host, HOST_MEMORY, TO_HOST),
        (device, DEVICE_MEMORY, places.other.value, DEVICE_MEMORY, WITHIN),
        (device, UNIFIED_MEMORY, places.other.value, UNIFIED_MEMORY, BY_ADDRESS),
    ):
        told = {"address": destination, "source": source, "copy_kind": kind}
        flat = DriverCopy2D(width=WIDTH, height=HEIGHT)
        deep = DriverCopy3D(width=WIDTH, height=HEIGHT, depth=LAYERS)
        for parameters in (flat, deep):
            driver_end(parameters.source, source_memory, source)
            driver_end(parameters.destination, destination_memory, destination)
        deep.source.height = deep.destination.height = HEIGHT
        size = WIDTH * HEIGHT
        calls("cuMemcpy2D_v2", to(flat), size=size, **told)
        calls("cuMemcpy2DUnaligned_v2", to(flat), size=size, **told)
        calls("cuMemcpy2DAsync_v2", to(flat), stream, size=size, **told, **in_stream)
        calls("cuMemcpy3D_v2", to(deep), size=size * LAYERS, **told)
        calls("cuMemcpy3DAsync_v2", to(deep), stream, size=size * LAYERS, **told, **in_stream)
        deep.source.context = deep.destination.context = context
        contexts = {"handle": context.value, "related": context.value, "size": size * LAYERS}
        calls("cuMemcpy3DPeer", to(deep), **told, **contexts)
        calls("cuMemcpy3DPeerAsync", to(deep), stream, **told, **contexts, **in_stream)


def driver_with_arrays(calls, places):
    stream, one, other = places.stream, pointer(), pointer()
    in_stream = {"stream": stream.value}
    # One row of 4096 floats: the copies between an array and bytes are of one dimension.
    row, size = ArrayDescription(4096, 0, 0x20, 1), 4096 * 4
    for array in (one, other):
        calls.must("cuArrayCreate_v2", to(array), to(row), handle=array, size=size)
    host, device = places.pageable, places.device.value
    into = {"handle": one.value, "size": size}
    out_of = {"related": one.value, "size": size}
    calls("cuMemcpyDtoA_v2", one, 0, device, size, source=device, copy_kind=WITHIN, **into)
    calls("cuMemcpyAtoD_v2", device, one, 0, size, address=device, copy_kind=WITHIN, **out_of)
    calls("cuMemcpyHtoA_v2", one, 0, host, size, source=host, copy_kind=TO_DEVICE, **into)
    calls("cuMemcpyHtoAAsync_v2", one, 0, host, size, stream, source=host, copy_kind=TO_DEVICE, **into, **in_stream)
    calls("cuMemcpyAtoH_v2", host, one, 0, size, address=host, copy_kind=TO_HOST, **out_of)
    calls("cuMemcpyAtoHAsync_v2", host, one, 0, size, stream, address=host, copy_kind=TO_HOST, **out_of, **in_stream)
    calls("cuMemcpyAtoA_v2", other, 0, one, 0, size, handle=other.value, copy_kind=WITHIN, **out_of)
    parameters = DriverCopy2D(width=size, height=1)
    driver_end(parameters.source, HOST_MEMORY, host)
    # The rows here are longer than those that the end above is made for.
    parameters.source.pitch = size
    parameters.destination.memory, parameters.destination.array = ARRAY_MEMORY, one
    calls("cuMemcpy2D_v2", to(parameters), handle=one.value, address=None, source=host, size=size, copy_kind=TO_DEVICE)
    for array in (one, other):
        calls("cuArrayDestroy", array, handle=array.value)


def batches(calls, places):
    """Five copies of different sizes in one call, between pinned and device memory."""
    stream = places.stream
    sizes = (ctypes.c_size_t * 5)(100, 2000, 30000, 4, 65536)
    count, total, step = len(sizes), sum(sizes), SIZE // 8
    devices = (ctypes.c_void_p * count)(*(places.device.value + step * i for i in range(count)))
    hosts = (ctypes.c_void_p * count)(*(places.pinned.value + step * i for i in range(count)))
    attributes = CopyAttributes(1, Location(0, 0), Location(0, 0), 0)
    first, failed = ctypes.c_size_t(0), ctypes.c_size_t()
    told = {"size": total, "count": count, "stream": stream.value}
    plain = (sizes, count, to(attributes), to(first), 1)
    calls("cudaMemcpyBatchAsync", devices, hosts, *plain, stream, **told)
    calls("cudaMemcpyBatchAsync", hosts, devices, *plain, stream, **told)
    calls("cuMemcpyBatchAsync", devices, hosts, *plain, to(failed), stream, **told)
    calls("cuMemcpyBatchAsync_v2", hosts, devices, *plain, stream, **told)
    operations = (BatchOperation * 2)()
    for i, operation in enumerate(operations):
        operation.source = Operand(1, places.pinned.value + i * (SIZE // 2), 0, 0, Location(0, 0))
        operation.destination = Operand(1, places.device.value + i * (SIZE // 2), 0, 0, Location(0, 0))
        operation.extent, operation.order = Extent(WIDTH * (i + 1), HEIGHT, LAYERS), 1
    told = {"size": 3 * WIDTH * HEIGHT * LAYERS, "count": 2, "stream": stream.value}
    calls("cudaMemcpy3DBatchAsync", 2, operations, 0, stream, **told)
    calls("cuMemcpy3DBatchAsync", 2, operations, to(failed), 0, stream, **told)
    calls("cuMemcpy3DBatchAsync_v2", 2, operations, 0, stream, **told)
