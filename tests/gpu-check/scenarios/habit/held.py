"""Habits that hold memory which nobody can use."""

from truth import Cudart

from .common import MIB, Habit, take


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


def partly_free():
    """Segments of which a third stays in use."""
    kept, fillers = [], []
    for _ in range(8):
        large = take(300)
        del large
        kept.append(take(100))
        fillers.append(take(200))
    fillers.clear()
    return kept


HABITS = {
    "pinned_segments": Habit(pinned_segments, ["fragmentation.pinned_segments"]),
    "stranded": Habit(stranded, ["fragmentation.stranded"]),
    "page_waste": Habit(page_waste, ["fragmentation.page_waste"]),
    "partly_free": Habit(partly_free, noted=["fragmentation.partly_free_segments"]),
}
