"""Sets: device memory filled with one value, by bytes, halves and words."""

from .calls import pointer, to
from .structures import Extent, PitchedPointer

SIZE, PITCH, WIDTH, HEIGHT, LAYERS = 1 << 20, 1024, 300, 20, 4


def sets(calls):
    block, stream = pointer(), calls.stream()
    calls.must("cudaMalloc", to(block), SIZE, address=block, size=SIZE)
    told = {"address": block.value}
    in_stream = {"stream": stream.value, **told}
    calls("cudaMemset", block, 1, SIZE, size=SIZE, **told)
    calls("cudaMemsetAsync", block, 1, SIZE - 1, stream, size=SIZE - 1, **in_stream)
    calls("cudaMemset2D", block, PITCH, 1, WIDTH, HEIGHT, size=WIDTH * HEIGHT, **told)
    calls("cudaMemset2DAsync", block, PITCH, 1, WIDTH, HEIGHT, stream, size=WIDTH * HEIGHT, **in_stream)
    place, extent = PitchedPointer(block.value, PITCH, PITCH, HEIGHT), Extent(WIDTH, HEIGHT, LAYERS)
    calls("cudaMemset3D", place, 1, extent, size=WIDTH * HEIGHT * LAYERS, **told)
    calls("cudaMemset3DAsync", place, 1, extent, stream, size=WIDTH * HEIGHT * LAYERS, **in_stream)
    # Rows that are longer than the pitch.
    calls("cudaMemset2D", block, 16, 1, WIDTH, HEIGHT, expect=(1, 12), size=WIDTH * HEIGHT, **told)
    for bits in (8, 16, 32):
        bytes_, count = bits // 8, 1000
        calls(f"cuMemsetD{bits}_v2", block, 1, count, size=count * bytes_, **told)
        calls(f"cuMemsetD{bits}Async", block, 1, count, stream, size=count * bytes_, **in_stream)
        size = 50 * HEIGHT * bytes_
        calls(f"cuMemsetD2D{bits}_v2", block, PITCH, 1, 50, HEIGHT, size=size, **told)
        calls(f"cuMemsetD2D{bits}Async", block, PITCH, 1, 50, HEIGHT, stream, size=size, **in_stream)
    calls("cudaStreamSynchronize", stream, stream=stream.value)
    calls("cudaFree", block, **told)
    calls.plain("cudaStreamDestroy", stream)
