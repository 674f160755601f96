"""What the traced programs share: the clock of the recording, the profiler, a place for the truth."""

import json
import os
import sys
import tempfile
import time
from collections import Counter


def now():
    """The moment on the clock of the recording, CLOCK_MONOTONIC, ns."""
    return time.monotonic_ns()


def write(truth, path=None):
    """Leaves the truth where the check looks for it: the program's first argument."""
    path = path or sys.argv[1]
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(truth, file)
    os.replace(path + ".part", path)


def profiled(work):
    """Runs `work` between two synchronizations under the PyTorch profiler.

    Returns the window and what the GPU did in it:
    `window`: [begin, end];
    `kernels`: [name, launching call, count] of kernels that calls launched one by one;
    `graph_kernels`: the same for kernels that a graph launch ran;
    `copies`: [count, bytes].
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    # The first start of a profiler initializes CUPTI; that one is thrown away.
    with profile(activities=[ProfilerActivity.CUDA]):
        torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        torch.cuda.synchronize()
        # The profiler drops activities that its clocks put before its start.
        time.sleep(0.02)
        begin = now()
        work()
        torch.cuda.synchronize()
        end = now()
        time.sleep(0.02)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            events = json.load(file, strict=False)["traceEvents"]
    return {"window": [begin, end], **activities(events)}


def activities(events):
    """Kernels and copies of a Chrome trace by PyTorch, each kernel with the call that launched it.

    A kernel belongs to a graph if it correlates with a graph launch: this profiler does not
    write the graph's id.
    """
    calls = {}
    for event in events:
        if event.get("cat") in ("cuda_runtime", "cuda_driver"):
            correlation = event.get("args", {}).get("correlation")
            # A runtime call and the driver call inside it may share one id: the outer counts.
            if correlation is not None and (event["cat"] == "cuda_runtime" or correlation not in calls):
                calls[correlation] = event["name"]
    kernels, graph_kernels = Counter(), Counter()
    copies, copied = 0, 0
    for event in events:
        arguments = event.get("args", {})
        if event.get("cat") == "kernel":
            call = calls.get(arguments.get("correlation"), "unknown")
            in_graph = bool(arguments.get("graph id")) or "GraphLaunch" in call
            (graph_kernels if in_graph else kernels)[event["name"], call] += 1
        elif event.get("cat") == "gpu_memcpy":
            copies += 1
            copied += arguments.get("bytes", 0)
    return {
        "kernels": rows(kernels),
        "graph_kernels": rows(graph_kernels),
        "copies": [copies, copied],
    }


def rows(counts):
    return [[name, call, count] for (name, call), count in sorted(counts.items())]


def loaded_library(part):
    """The path of a library that this process has mapped, by a part of its file name."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if len(line.split(maxsplit=5)) == 6}
    found = sorted(path for path in paths if part in os.path.basename(path))
    if not found:
        raise RuntimeError(f"no library with {part!r} in its name is mapped")
    return found[0]


class Cudart:
    """The CUDA runtime that PyTorch loaded, called as a C program would."""

    HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS = 1, 2, 3, 4

    def __init__(self):
        import ctypes

        self.ctypes = ctypes
        self.library = ctypes.CDLL(loaded_library("libcudart"))
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self.library.cudaMalloc.argtypes = [ctypes.POINTER(pointer), size]
        self.library.cudaFree.argtypes = [pointer]
        self.library.cudaMemGetInfo.argtypes = [ctypes.POINTER(size), ctypes.POINTER(size)]
        self.library.cudaMemcpy.argtypes = [pointer, pointer, size, ctypes.c_int]

    def malloc(self, size):
        """The address of a new block."""
        address = self.ctypes.c_void_p()
        self._check("cudaMalloc", self.library.cudaMalloc(self.ctypes.byref(address), size))
        return address.value

    def free(self, address):
        self._check("cudaFree", self.library.cudaFree(address))

    def free_bytes(self):
        """Free bytes of the device."""
        free, total = self.ctypes.c_size_t(), self.ctypes.c_size_t()
        answer = self.library.cudaMemGetInfo(self.ctypes.byref(free), self.ctypes.byref(total))
        self._check("cudaMemGetInfo", answer)
        return free.value

    def copy(self, to, source, size, kind):
        self._check("cudaMemcpy", self.library.cudaMemcpy(to, source, size, kind))

    @staticmethod
    def _check(call, error):
        if error:
            raise RuntimeError(f"{call} returned {error}")
