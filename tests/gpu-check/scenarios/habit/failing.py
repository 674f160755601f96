"""Calls that fail, and memory that runs out."""

import ctypes

import torch
from truth import Cudart, loaded_library

from .common import GIB, MIB, Habit, take

INVALID_DEVICE, OUT_OF_MEMORY = 101, 2


def failed():
    """A device that is not there is asked for, and the program goes on."""
    runtime = ctypes.CDLL(loaded_library("libcudart"))
    for _ in range(3):
        if runtime.cudaSetDevice(99) != INVALID_DEVICE:
            raise RuntimeError("device 99 was found")
        # Else PyTorch would find the error, and take it for its own.
        runtime.cudaGetLastError()


def fatal():
    """An index out of bounds: the kernel's assertion takes the context with it."""
    x = torch.zeros(8, device="cuda")
    for _ in range(2):
        try:
            x[torch.tensor([1000], device="cuda")].sum()
            torch.cuda.synchronize()
        except RuntimeError as error:
            print(f"as expected: {error}")
        else:
            raise RuntimeError("the assertion held")


def given_up():
    """PyTorch finds no memory, and the program does without."""
    kept = take(1024)
    try:
        take(torch.cuda.mem_get_info()[1] // MIB)
    except torch.OutOfMemoryError:
        return kept
    raise RuntimeError("more was allocated than there is")


def refused():
    """A program of its own allocator asks for more than there is, once."""
    runtime = ctypes.CDLL(loaded_library("libcudart"))
    block, size = ctypes.c_void_p(), ctypes.c_size_t(torch.cuda.mem_get_info()[1] + GIB)
    if runtime.cudaMalloc(ctypes.byref(block), size) != OUT_OF_MEMORY:
        raise RuntimeError("more was allocated than there is")
    runtime.cudaGetLastError()


def retried():
    """The cache has the device filled with blocks that are too small for the next request."""
    blocks = []
    while torch.cuda.mem_get_info()[0] > 6 * GIB:
        blocks.append(take(2048))
    blocks.clear()
    return take(8192)


def sleeps_in_vain():
    """Mappings go, and the physical memory below them stays: its handles are kept."""
    from family.calls import Calls
    from family.vmm import Physical

    physical = Physical(Calls())
    size, kept = 64 * MIB, []
    for _ in range(8):
        address = physical.reserve(size)
        handle, result = physical.create(size)
        if result != 0:
            raise RuntimeError(f"cuMemCreate returned {result}")
        physical.map(address, size, handle)
        kept.append((address, handle))
    for address, _ in kept:
        physical.unmap(address, size)


HABITS = {
    "failed": Habit(failed, noted=["error.failed"]),
    "fatal": Habit(fatal, ["error.fatal"]),
    "given_up": Habit(given_up, ["oom.torch"]),
    "refused": Habit(refused, ["oom.refused"]),
    "retried": Habit(retried, ["allocator.retry"]),
    "sleeps_in_vain": Habit(sleeps_in_vain, ["leak.sleep_freed_nothing"]),
}
