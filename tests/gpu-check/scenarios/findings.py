"""Habits that cost time or memory, one in each run, and a program without any.

The second argument names the habit. The truth is the families of findings that it must lead to.
"""

import os
import sys

import torch
from truth import Cudart, now, write

MIB = 1 << 20


def take(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def launch_bound():
    """Small kernels, one by one, and a wait now and then."""
    x = torch.zeros(1024, device="cuda")
    for _ in range(40):
        for _ in range(1000):
            x.add_(1)
        torch.cuda.synchronize()


def pageable():
    """Batches from pageable memory, and a few from pinned memory to compare with."""
    batch = torch.ones(32 * MIB, dtype=torch.uint8)
    pinned = batch.pin_memory()
    device = take(32)
    for step in range(100):
        device.copy_(batch)
        if step % 10 == 0:
            device.copy_(pinned, non_blocking=True)
            torch.cuda.current_stream().synchronize()


def small_copies():
    """Many small pinned copies in a row."""
    pieces = torch.ones(4096, 1024, dtype=torch.uint8).pin_memory()
    device = torch.empty_like(pieces, device="cuda")
    for _ in range(5):
        for piece, place in zip(pieces, device):
            place.copy_(piece, non_blocking=True)
        torch.cuda.synchronize()


def serialized():
    """Pinned batches, each waited for at once."""
    pinned = torch.ones(32 * MIB, dtype=torch.uint8).pin_memory()
    device = take(32)
    for _ in range(200):
        device.copy_(pinned, non_blocking=True)
        torch.cuda.current_stream().synchronize()


def sync_storm():
    """A wait after each launch."""
    x = torch.zeros(1024, device="cuda")
    for _ in range(20_000):
        x.add_(1)
        torch.cuda.synchronize()


def scalars():
    """A number fetched from the device after each operation."""
    x = torch.zeros(1024, device="cuda")
    for _ in range(20_000):
        x[0].item()


def pinned_segments():
    """Large short-lived tensors, each of which leaves a small one behind in its segment."""
    kept, fillers = [], []
    for _ in range(8):
        large = take(300)
        del large
        kept.append(take(2))
        # Keeps the next small one from landing in this segment.
        fillers.append(take(298))
    fillers.clear()
    return kept


def stranded():
    """What vLLM saw when weights were loaded: 270 MiB take the place of 530 MiB."""
    kept = []
    for _ in range(8):
        staging = take(530)
        del staging
        kept.append(take(270))
    return kept


def page_waste():
    """Blocks of 1 MiB from the driver, of which every other one is freed."""
    cudart = Cudart()
    blocks = [cudart.malloc(MIB) for _ in range(1024)]
    for block in blocks[1::2]:
        cudart.free(block)
    return blocks


def healthy():
    """Pinned batches ahead of large kernels, a loss each ten steps, tensors that come and go."""
    weights = torch.randn(4096, 4096, device="cuda")
    pinned = torch.randn(4096, 4096).pin_memory()
    batches = [torch.empty_like(weights) for _ in range(2)]
    ahead = torch.cuda.Stream()
    for step in range(150):
        batch = batches[step % 2]
        with torch.cuda.stream(ahead):
            batch.copy_(pinned, non_blocking=True)
        torch.cuda.current_stream().wait_stream(ahead)
        y = batch
        for _ in range(10):
            y = torch.tanh(y @ weights)
        loss = y.mean()
        ahead.wait_stream(torch.cuda.current_stream())
        if step % 10 == 0:
            loss.item()
    torch.cuda.synchronize()
    return weights


HABITS = {
    "launch_bound": (launch_bound, ["launch.host_bound"]),
    "pageable": (pageable, ["transfer.pageable"]),
    "small_copies": (small_copies, ["transfer.small_copies"]),
    "serialized": (serialized, ["transfer.serialized"]),
    "sync_storm": (sync_storm, ["sync.each_launch"]),
    "scalars": (scalars, ["sync.scalars"]),
    "pinned_segments": (pinned_segments, ["fragmentation.pinned_segments"]),
    "stranded": (stranded, ["fragmentation.stranded"]),
    "page_waste": (page_waste, ["fragmentation.page_waste"]),
    "healthy": (healthy, []),
}


def main():
    habit, found = HABITS[sys.argv[2]]
    take(1)
    torch.cuda.synchronize()
    begin = now()
    kept = habit()
    torch.cuda.synchronize()
    end = now()
    write({"pid": os.getpid(), "window": [begin, end], "found": found})
    # Without tidying up: what is in `kept` is held to the very end.
    os._exit(0)


main()
