"""Habits that hold memory which nobody can use."""

from truth import Cudart

from .common import MIB, Habit, take


def partly_used(used):
    """Eight segments of 300 MiB, each of a large short-lived tensor, of which so many MiB stay in use."""
    kept, fillers = [], []
    for _ in range(8):
        large = take(300)
        del large
        kept.append(take(used))
        # Keeps the next one from landing in this segment.
        fillers.append(take(300 - used))
    fillers.clear()
    return kept


def pinned_segments():
    """A small tensor in each segment, which cannot be given back."""
    return partly_used(2)


def partly_free():
    """A third of each segment."""
    return partly_used(100)


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


HABITS = {
    "pinned_segments": Habit(pinned_segments, ["fragmentation.pinned_segments"]),
    "stranded": Habit(stranded, ["fragmentation.stranded"]),
    "page_waste": Habit(page_waste, ["fragmentation.page_waste"]),
    "partly_free": Habit(partly_free, noted=["fragmentation.partly_free_segments"]),
}
