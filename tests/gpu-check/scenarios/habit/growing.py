"""Memory that grows and does not come back."""

import ctypes
import subprocess
import sys
import time
from pathlib import Path

import torch
from truth import Cudart, loaded_library

from .common import MIB, Habit, take

SERVER = Path(__file__).parent.with_name("server.py")
# Growth is judged over a minute at least, the last three quarters of the time.
LONG = 90


def steps(seconds, each):
    """Evenly spread over so many seconds, one each so many."""
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        yield
        time.sleep(each)


def leaks():
    """Requests that come and go, each of which leaves a tensor in a list."""
    kept = []
    for _ in steps(LONG, 0.5):
        for _ in range(20):
            take(8)
        kept.append(take(2))
    return kept


def cache_grows():
    """Each request has a stream of its own, whose cache no other stream can use.

    A small tensor of each stays, and its segment with it; what else is cached is given back.
    """
    runtime = ctypes.CDLL(loaded_library("libcudart"))
    kept = []
    for _ in steps(LONG, 0.5):
        stream = ctypes.c_void_p()
        if runtime.cudaStreamCreate(ctypes.byref(stream)):
            raise RuntimeError("cudaStreamCreate failed")
        with torch.cuda.stream(torch.cuda.ExternalStream(stream.value)):
            large = take(200)
            del large
            kept.append(take(2))
        others = [take(32) for _ in range(14)]
        del others
        torch.cuda.empty_cache()
    return kept


def cycles():
    """A library that is set up and torn down, and leaves a block behind each time."""
    cudart = Cudart()
    for _ in range(8):
        blocks = [cudart.malloc(8 * MIB) for _ in range(32)]
        time.sleep(0.3)
        for block in blocks[1:]:
            cudart.free(block)
        time.sleep(0.3)


def orphan():
    """A server that is killed; its worker goes on, and so does what it holds."""
    with subprocess.Popen([sys.executable, SERVER], stdout=subprocess.PIPE, text=True) as server:
        server.stdout.readline()
        server.kill()
    time.sleep(1)


HABITS = {
    "leaks": Habit(leaks, ["leak.growth"]),
    "cache_grows": Habit(cache_grows, ["allocator.reserved_growth", "fragmentation.pinned_segments", "leak.growth"]),
    "cycles": Habit(cycles, ["leak.cycle"]),
    "orphan": Habit(orphan, ["leak.orphan"], is_many=True),
}
