"""A server that uses the GPU, and its worker, which does not end with it."""

import subprocess
import sys
import time

import torch

MIB = 1 << 20
# The worker's life, s: longer than anybody looks at it.
LIFE = 8


def hold(mib):
    return torch.ones(mib * MIB, dtype=torch.uint8, device="cuda")


def main():
    if sys.argv[1:] == ["worker"]:
        kept = hold(512)
        print("ready", flush=True)
        time.sleep(LIFE)
    else:
        kept = hold(64)
        worker = subprocess.Popen([sys.executable, __file__, "worker"], stdout=subprocess.PIPE, text=True)
        print(worker.stdout.readline(), end="", flush=True)
        worker.wait()
    del kept


main()
