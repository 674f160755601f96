"""PyTorch's caching allocator through all its states, with a checkpoint after each step.

At each checkpoint: the moment, memory_stats(), and every segment and active block of
memory_snapshot().
"""

import os
import random

import torch
from truth import now, write

KIB, MIB = 1 << 10, 1 << 20
CHECKPOINTS = 50
EXPANDABLE = "expandable_segments:True" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")


def checkpoint(step):
    """What PyTorch says of itself now. Nothing is allocated in between."""
    if EXPANDABLE:
        # Memory unmapped since PyTorch's last report shows in its next one.
        take(1)
    stats = torch.cuda.memory_stats()
    segments = torch.cuda.memory_snapshot()
    return {
        "step": step,
        "at": now(),
        "allocated": stats["allocated_bytes.all.current"],
        "reserved": stats["reserved_bytes.all.current"],
        "active_blocks": stats["active.all.current"],
        "active_bytes": stats["active_bytes.all.current"],
        "segments": sorted([segment["address"], segment["total_size"]] for segment in segments),
        "blocks": sorted(active_blocks(segments)),
    }


def active_blocks(segments):
    """[address, size] of each block that is in use; a segment's blocks lie one after the other."""
    for segment in segments:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"].startswith("active"):
                yield [block.get("address", address), block["size"]]
            address += block["size"]


def take(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def steps():
    """Yields the name of each step, after it is done."""
    kept = []
    for size in (1, 512, 513, 100 * KIB, MIB - 1):
        kept.append(take(size))
        yield f"small {size}"
    for size in (MIB, 3 * MIB, 9 * MIB, 10 * MIB, 21 * MIB, 300 * MIB + 7):
        kept.append(take(size))
        yield f"large {size}"
    del kept[1::2]
    yield "every other one freed"
    kept.append(take(2 * MIB))
    yield "a cached block split"
    kept.append(take(700 * KIB))
    yield "a small block from the cache"

    total = torch.cuda.mem_get_info()[1]
    try:
        # All of the device's memory is never free: the context has some.
        take(total)
        raise RuntimeError("all of the device's memory was allocated")
    except torch.OutOfMemoryError:
        pass
    yield "out of memory, caught"
    torch.cuda.empty_cache()
    yield "cache emptied"
    kept.append(take(5 * MIB))
    yield "after the cache was emptied"

    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        pooled = [take(4 * MIB), take(40 * MIB), take(1000)]
    yield "in a pool"
    del pooled[1]
    yield "freed in the pool"
    del pooled, pool
    yield "the pool dropped"
    torch.cuda.empty_cache()
    yield "the pool's segments given back"

    graph = torch.cuda.CUDAGraph()
    source = torch.zeros(MIB, device="cuda")
    source.add(1).mul_(2)
    torch.cuda.synchronize()
    yield "before the graph"
    with torch.cuda.graph(graph):
        first = source.add(1)
        second = first.mul(2).add(source)
    yield "graph captured"
    graph.replay()
    torch.cuda.synchronize()
    yield "graph replayed"
    graph.reset()
    del graph, first, second
    torch.cuda.empty_cache()
    yield "graph dropped"

    chance = random.Random(1)
    number = 0
    while True:
        for _ in range(25):
            if kept and chance.random() < 0.5:
                kept.pop(chance.randrange(len(kept)))
            else:
                kept.append(take(int(2 ** chance.uniform(4, 27))))
        if number % 7 == 6:
            torch.cuda.empty_cache()
        number += 1
        yield f"random {number}"


def main():
    torch.cuda.init()
    checkpoints = []
    for step in steps():
        checkpoints.append(checkpoint(step))
        if len(checkpoints) == CHECKPOINTS:
            break
    stats = torch.cuda.memory_stats()
    write({
        "expandable": EXPANDABLE,
        "pid": os.getpid(),
        "ooms": stats["num_ooms"],
        "checkpoints": checkpoints,
    })


main()
