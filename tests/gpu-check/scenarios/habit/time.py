"""Habits that cost time, and a program without any."""

import torch

from .common import MIB, Habit, take


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


def busy():
    """Large kernels, and a wait for each: the device has work all the time."""
    x = torch.randn(8192, 8192, device="cuda")
    for _ in range(40):
        for _ in range(20):
            torch.mm(x, x)
        torch.cuda.synchronize()


def loading():
    """Weights from pageable memory, each block once."""
    weights = torch.ones(64 * MIB, dtype=torch.uint8)
    return [weights.clone().to("cuda") for _ in range(24)]


def unwaited():
    """Small kernels one by one, and nothing that would show whether the device keeps up."""
    x = torch.zeros(1024, device="cuda")
    for _ in range(40_000):
        x.add_(1)


HABITS = {
    "launch_bound": Habit(launch_bound, ["launch.host_bound"]),
    "pageable": Habit(pageable, ["transfer.pageable"]),
    "small_copies": Habit(small_copies, ["transfer.small_copies"]),
    "serialized": Habit(serialized, ["transfer.serialized"]),
    "sync_storm": Habit(sync_storm, ["sync.each_launch"]),
    "scalars": Habit(scalars, ["sync.scalars"]),
    "busy": Habit(busy, noted=["sync.busy_device"]),
    "loading": Habit(loading, noted=["transfer.pageable"]),
    "unwaited": Habit(unwaited, noted=["launch.host_bound"]),
    "healthy": Habit(healthy),
}
