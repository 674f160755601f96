"""PyTorch's memory snapshots of several allocator states, each with what PyTorch says of it.

For each: the dumped file, the numbers of PyTorch's own viewer (torch.cuda._memory_viz) on it, not
rounded, and memory_stats() of the same moment.
"""

import os
import pickle
import sys

import torch
from torch.cuda import _memory_viz as viewer
from truth import now, write

KIB, MIB = 1 << 10, 1 << 20
EXPANDABLE = "expandable_segments:True" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
# To find the names of C++ frames takes seconds: once is enough.
STACKS = "python" if EXPANDABLE else "all"


class Exact(viewer.Bytes):
    def __repr__(self):
        return str(self.value)


viewer.Bytes = Exact
viewer._report_free = lambda external, internal: f"{external}+{internal}"


def viewed(path):
    """The viewer's sums over a file's segments, in bytes."""
    with open(path, "rb") as file:
        data = pickle.load(file)
    lines = [line for line in viewer.segsum(data).splitlines() if ": " in line]
    found = dict(line.split(": ", 1) for line in lines)
    external, internal = found["total_free"].split("+")
    return {
        "segments": int(found["segments"]),
        "reserved": int(found["total_reserved"]),
        "requested": int(found["total_allocated"]),
        "free_external": int(external),
        "free_internal": int(internal),
        "entries": sum(len(trace) for trace in data.get("device_traces", [])),
        "ooms": sum(entry["action"] == "oom" for trace in data.get("device_traces", []) for entry in trace),
    }


def dump(state):
    """Dumps a snapshot; nothing is allocated in between."""
    torch.cuda.synchronize()
    path = f"{sys.argv[1]}.{state}.pickle"
    stats = torch.cuda.memory_stats()
    torch.cuda.memory._dump_snapshot(path)
    return {
        "state": state,
        "file": path,
        "at": now(),
        "viewer": viewed(path),
        "stats": {
            "allocated": stats["allocated_bytes.all.current"],
            "reserved": stats["reserved_bytes.all.current"],
            "requested": stats["requested_bytes.all.current"],
            "allocated_blocks": stats["allocation.all.current"],
            "pending_free": stats["active_bytes.all.current"] - stats["allocated_bytes.all.current"],
        },
    }


def take(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def states():
    """Yields the name of each state."""
    kept = [take(size) for size in (1, 513, 100 * KIB, MIB, 3 * MIB, 9 * MIB, 21 * MIB, 300 * MIB + 7)]
    del kept[1::2]
    kept.append(take(2 * MIB))
    yield "plain"
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        kept += [take(5 * MIB), take(700 * KIB)]
    yield "two-streams"
    # The side stream is kept busy, so that the block's free has to wait for it.
    block = take(40 * MIB)
    torch.cuda.synchronize()
    torch.cuda.memory._record_memory_history(stacks=STACKS, max_entries=100_000)
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
    block.record_stream(side)
    del block
    yield "history"
    kept += [take(MIB * size) for size in range(1, 30)]
    del kept[10::2]
    graph = torch.cuda.CUDAGraph()
    source = torch.zeros(MIB, device="cuda")
    source.add(1).mul_(2)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        first = source.add(1)
        second = first.mul(2).add(source)
    graph.replay()
    yield "graph-pool"
    try:
        take(torch.cuda.mem_get_info()[1])
        raise RuntimeError("all of the device's memory was allocated")
    except torch.OutOfMemoryError:
        pass
    yield "after-out-of-memory"
    torch.cuda.memory._record_memory_history(stacks=STACKS, max_entries=50, clear_history=True)
    for size in range(100):
        kept.append(take(1000 * size + 1))
        kept.pop(0)
    yield "overflowed"
    del first, second, graph


def main():
    torch.cuda.init()
    write({
        "pid": os.getpid(),
        "torch": torch.__version__,
        "snapshots": [dump(state) for state in states()],
    })


main()
