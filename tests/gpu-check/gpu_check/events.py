"""The rows of a recording, read without cudasnoop, and what follows from them alone."""

import json
from collections import Counter
from pathlib import PurePath

from . import arrow
from .report import FREES, LAUNCHES, MALLOCS

# Bits of `flags` (docs/format.md).
CAPTURED = 1 << 9
# The CUDA libraries: what they call themselves is part of the call that the program made.
OWN_LIBRARIES = ("libcudart", "libcuda.so")

# How a capture spreads from stream to stream.
SPREADING = {
    "cudaEventRecord", "cudaEventRecordWithFlags", "cuEventRecord", "cuEventRecordWithFlags", "cudaStreamWaitEvent",
    "cuStreamWaitEvent",
}


class Events:
    """All rows, and the facts among them."""

    def __init__(self, rows):
        self.rows = rows
        self.facts = [json.loads(row.text) for row in rows if row.text]
        self.kernels, self.callers = {}, {}
        for fact in self.facts:
            if fact["fact"] == "kernel" and (fact["name"] or fact["id"] not in self.kernels):
                self.kernels[fact["id"]] = fact
            if fact["fact"] == "caller":
                self.callers[fact["id"]] = fact["module"]

    @classmethod
    def read(cls, path):
        return cls(arrow.read(path))

    def facts_of(self, kind, **wanted):
        """Facts of a kind, by some of their fields."""
        return [
            fact for fact in self.facts
            if fact["fact"] == kind and all(fact.get(key) == value for key, value in wanted.items())
        ]

    def calls(self, pid=None, window=None, apis=None, succeeded=False):
        """The rows of finished calls: of a process, entered between two moments, of some functions."""
        begin, end = window or (None, None)
        return [
            row for row in self.rows
            if row.kind == "call" and pid in (None, row.pid) and (apis is None or row.api in apis)
            and (begin is None or row.ts >= begin) and (end is None or row.ts <= end)
            and (not succeeded or row.result == 0)
        ]

    def caller(self, row):
        """The file of the code that made the call; None where it is not known."""
        return self.callers.get(row.caller)

    def is_the_programs(self, row):
        """Whether the program made the call, and not a CUDA library on its way."""
        return row.parent is None and not PurePath(self.caller(row) or "").name.startswith(OWN_LIBRARIES)

    def kernel_name(self, row):
        kernel = self.kernels.get(row.kernel)
        return kernel and kernel["name"]

    def counts(self, **selection):
        """{function: calls}."""
        return Counter(row.api for row in self.calls(**selection))


def results(rows):
    """{result: calls}; a call whose return is not probed has none."""
    return dict(Counter("unknown" if row.result is None else str(row.result) for row in rows))


def mapped_at(rows, moments):
    """What is mapped at each of the ascending moments: [{address: bytes}]."""
    mapped, states, moments = {}, [], list(moments)
    for row in [row for row in rows if row.result == 0 and row.api in ("cuMemMap", "cuMemUnmap")]:
        while len(states) < len(moments) and row.ts > moments[len(states)]:
            states.append(dict(mapped))
        if row.api == "cuMemMap":
            mapped[row.address] = row.size
        else:
            for address in [at for at in mapped if row.address <= at < row.address + row.size]:
                del mapped[address]
    return states + [dict(mapped)] * (len(moments) - len(states))


def ranges(mapped, reserved):
    """Mapped memory as ranges without holes, none beyond its reservation: sorted [address, bytes].

    `reserved`: the first addresses of all reservations.
    """
    joined = []
    for address, size in sorted(mapped.items()):
        if joined and sum(joined[-1]) == address and address not in reserved:
            joined[-1][1] += size
        else:
            joined.append([address, size])
    return joined


def blocks_at(rows, moments):
    """Blocks of cudaMalloc and cuMemAlloc_v2 that are live at each of the ascending moments."""
    live, states, moments = {}, [], list(moments)
    for row in [row for row in rows if row.result == 0 and row.api in (*MALLOCS, *FREES)]:
        while len(states) < len(moments) and row.ts > moments[len(states)]:
            states.append(dict(live))
        if row.api in MALLOCS:
            live[row.address] = row.size
        else:
            live.pop(row.address, None)
    return states + [dict(live)] * (len(moments) - len(states))


def live_physical_bytes(rows, location=1):
    """Bytes of physical memory that is created and neither given up nor still mapped.

    As the driver counts: a handle has references, and so has each mapping.
    """
    sizes, references, mappings = {}, Counter(), {}
    for row in rows:
        if row.result != 0:
            continue
        if row.api == "cuMemCreate" and row.location == location:
            sizes[row.handle] = row.size
            references[row.handle] = 1
        elif row.api in ("cuMemRetainAllocationHandle", "cuMemImportFromShareableHandle"):
            references[row.handle] += 1
        elif row.api == "cuMemRelease":
            references[row.handle] -= 1
        elif row.api == "cuMemMap":
            mappings[row.address] = row.size, row.handle
            references[row.handle] += 1
        elif row.api == "cuMemUnmap":
            for address in [at for at in mappings if row.address <= at < row.address + row.size]:
                references[mappings.pop(address)[1]] -= 1
        # A value may stand for new memory once the old one is gone.
        for handle in [handle for handle in sizes if references[handle] <= 0]:
            del sizes[handle], references[handle]
    return sum(sizes.values())


def threads(row):
    """Threads of a launch; nothing of any other call."""
    if row.api not in LAUNCHES:
        return 0
    return row.grid_x * row.grid_y * row.grid_z * row.block_x * row.block_y * row.block_z


def host_functions(row):
    return int(row.api in ("cudaLaunchHostFunc", "cuLaunchHostFunc"))


ENDS = ("cudaStreamEndCapture", "cuStreamEndCapture")
NODES = ("cudaGraphGetNodes", "cuGraphGetNodes")


def work_run(rows, measure):
    """The work that the GPU must have done: what is captured, once for each launch of its graph.

    `measure` says how much work a call asks for.
    """
    captured, graphs, executables, total = 0, {}, {}, 0
    for row in rows:
        if row.flags & CAPTURED:
            captured += measure(row)
        else:
            total += measure(row)
        if row.api in ENDS:
            if row.result == 0:
                graphs[row.handle] = captured
            captured = 0
        elif "GraphInstantiate" in row.api and row.result == 0:
            executables[row.handle] = graphs.get(row.related, 0)
        elif row.api in ("cudaGraphLaunch", "cuGraphLaunch") and row.result == 0:
            total += executables.get(row.handle, 0)
    return total


def nodes(rows):
    """[calls captured into a graph, nodes that the program was told it has], for each time it asked."""
    captured, graphs, asked = 0, {}, []
    for row in rows:
        # Events and waits between streams are edges of the graph.
        captured += bool(row.flags & CAPTURED) and row.api not in SPREADING
        if row.api in ENDS:
            graphs[row.handle] = captured
            captured = 0
        elif row.api in ("cudaGraphDestroy", "cuGraphDestroy"):
            graphs.pop(row.handle, None)
        elif row.api in NODES and row.handle in graphs:
            asked.append([graphs[row.handle], row.count])
    return asked
