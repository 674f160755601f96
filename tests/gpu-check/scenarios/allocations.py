"""Device memory: PyTorch's own count of its segments, then the pages of single blocks."""

import torch
from truth import Cudart, now, write

KIB, MIB = 1 << 10, 1 << 20


def main():
    torch.ones(1, device="cuda")
    torch.cuda.synchronize()
    begin, before = now(), torch.cuda.memory_stats()
    kept = segments()
    torch.cuda.synchronize()
    end, after = now(), torch.cuda.memory_stats()
    keys = "num_device_alloc", "num_device_free"
    reserved = torch.cuda.memory_reserved()
    write({
        "window": [begin, end],
        "before": {key: before[key] for key in keys},
        "after": {key: after[key] for key in keys},
        "reserved": reserved,
        "moments": pages(Cudart(), reserved),
    })
    del kept


def segments():
    """Takes segments of many sizes, and gives some back."""
    kept = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in
            (100, 600 * KIB, 3 * MIB, 9 * MIB, 11 * MIB, 33 * MIB, 200 * MIB + 1)]
    for size in (50 * MIB, 70 * MIB, 90 * MIB):
        # Each is freed, and its segment given back, before the next is taken.
        torch.empty(size, dtype=torch.uint8, device="cuda")
        torch.cuda.empty_cache()
    del kept[::2]
    torch.cuda.empty_cache()
    return kept


def pages(cudart, reserved):
    """Single blocks: after each step its moment, the live bytes, and the bytes free on the device.

    The first moment is before any block: the bytes held by the others are counted from there.
    """
    blocks, moments = [], []

    def note():
        moments.append({"at": now(), "live": reserved + sum(size for _, size in blocks), "free": cudart.free_bytes()})

    def take(size):
        blocks.append((cudart.malloc(size), size))

    def give(index):
        cudart.free(blocks.pop(index)[0])

    # The first question sets up what the next ones find.
    cudart.free_bytes()
    note()
    for size in (1, 512, 4 * KIB, 64 * KIB, MIB, MIB + 1, 2 * MIB, 2 * MIB + 1, 3 * MIB, 20 * MIB + 1, 1 << 30):
        take(size)
        note()
    for _ in range(64):
        take(MIB)
    note()
    # Every other one: the pages stay, for the neighbours hold them.
    for index in range(len(blocks) - 1, len(blocks) - 64, -2):
        give(index)
    note()
    while blocks:
        give(0)
        if len(blocks) % 8 == 0:
            note()
    return moments


main()
