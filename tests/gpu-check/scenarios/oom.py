"""Runs out of memory for several reasons, each known beforehand.

For each: PyTorch's message, the verdict that is right, and a snapshot of the moment.
"""

import os
import subprocess
import sys

import torch
from truth import loaded_library, now, write

MIB, GIB = 1 << 20, 1 << 30

# A process of its own that holds all but 1 GiB until its standard input is closed. It does
# without PyTorch, which takes seconds to start.
HOLDER = """
import ctypes, sys
cudart = ctypes.CDLL(sys.argv[1])
free, total, block = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_void_p()
if cudart.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)):
    sys.exit("cudaMemGetInfo failed")
if cudart.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(free.value - (1 << 30))):
    sys.exit("cudaMalloc failed")
print("ready", flush=True)
sys.stdin.read()
"""

current = {"path": None}


def observe(device, asked, allocated, free):
    """Called by PyTorch while a request fails."""
    torch.cuda.memory._dump_snapshot(current["path"])


def take(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def fail(verdict, size, by_message=None):
    """Asks for what cannot be had; what was said.

    `by_message` is the verdict that the numbers of the message alone lead to, if it is another.
    """
    current["path"] = f"{sys.argv[1]}.{verdict}.pickle"
    try:
        take(size)
    except torch.OutOfMemoryError as error:
        return {
            "verdict": verdict, "by_message": by_message or verdict,
            "message": f"torch.OutOfMemoryError: {error}",
            "snapshot": current["path"], "at": now(), "asked": size,
        }
    raise RuntimeError(f"{verdict}: {size} bytes were allocated")


def capacity():
    total = torch.cuda.mem_get_info()[1]
    kept = [take(total // 8) for _ in range(6)]
    told = fail("capacity", total // 2)
    del kept
    return told


def fragmentation():
    """Fills the device with segments that a small block pins, then frees the rest of them."""
    fillers, pins = [], []
    large, pin = 3000 * MIB, 2 * MIB
    while torch.cuda.mem_get_info()[0] > large + 600 * MIB:
        whole = take(large)
        del whole
        pins.append(take(pin))
        # Keeps the next pin from landing in this segment.
        fillers.append(take(large - pin))
    fillers.clear()
    told = fail("fragmentation", 4 * GIB)
    del pins
    return told


def other_process():
    kept = take(100 * MIB)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, loaded_library("libcudart")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        if holder.stdout.readline().strip() != "ready":
            raise RuntimeError("the other process could not take the memory")
        told = fail("other_process", 4 * GIB)
        holder.stdin.close()
    del kept
    return told


def pending_free():
    """Asks for a block again whose free still waits for a stream, in a segment that is pinned.

    PyTorch waits for the stream before it fails, but then asks the device alone once more.
    """
    whole = torch.cuda.mem_get_info()[1] * 6 // 10
    segment = take(whole)
    del segment
    pin = take(2 * MIB)
    size = whole - 4 * MIB
    block = take(size)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(1_000_000_000)
    block.record_stream(side)
    del block
    told = fail("pending_free", size, by_message="fragmentation")
    again = take(size)
    del again, pin
    return told


def limit():
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(0.1)
    kept = take(total // 20)
    told = fail("limit", total // 8)
    del kept
    return told


def main():
    torch.cuda.init()
    torch._C._cuda_attach_out_of_memory_observer(observe)
    cases = []
    # The limit comes last: messages name it from then on.
    for case in (capacity, fragmentation, other_process, pending_free, limit):
        # To find the names of C++ frames takes seconds.
        torch.cuda.memory._record_memory_history(stacks="python", max_entries=10_000, clear_history=True)
        cases.append(case())
        torch.cuda.empty_cache()
    write({"pid": os.getpid(), "torch": torch.__version__, "cases": cases})


main()
