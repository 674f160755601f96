"""The worst case for a tracer: a loop that does nothing but launch; and one that allocates.

Speaks by lines: prints `ready`; at each `round` measures and prints ns a call; ends at `quit`.
"""

import json
import sys
import time

import torch
from truth import Cudart

LAUNCHES, BLOCKS, REPEATS = 20_000, 300, 5


def timed(work, count):
    """ns a call, the median of the repeats."""
    times = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        begin = time.monotonic_ns()
        for _ in range(count):
            work()
        times.append((time.monotonic_ns() - begin) / count)
        torch.cuda.synchronize()
    return sorted(times)[REPEATS // 2]


def main():
    values = torch.zeros(1 << 10, device="cuda")
    cudart = Cudart()
    timed(lambda: values.add_(1), LAUNCHES // 10)
    print("ready", flush=True)
    while sys.stdin.readline().strip() == "round":
        result = {
            "launch": timed(lambda: values.add_(1), LAUNCHES),
            "allocate and free": timed(lambda: cudart.free(cudart.malloc(1 << 21)), BLOCKS),
        }
        print(json.dumps(result), flush=True)


main()
