"""Says `ready`, reads a number, and waits for a kernel that takes so many seconds."""

import sys

import torch


def main():
    torch.cuda.init()
    torch.cuda.synchronize()
    print("ready", flush=True)
    seconds = int(sys.stdin.readline())
    # Cycles of the fastest clock that a device has: it takes so long, or longer.
    for _ in range(seconds):
        torch.cuda._sleep(2_000_000_000)
    torch.cuda.synchronize()


main()
