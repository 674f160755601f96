"""A running process with threads: it waits for the word while cudasnoop attaches, then calls.

Speaks by lines: prints `ready`, reads `go`, calls, writes the truth, prints `done`, reads `quit`.
"""

import sys
import threading

import torch
from truth import Cudart, now, write

THREADS, LAUNCHES, BLOCKS = 4, 2000, 50


def worker(cudart, ready, go):
    values = torch.zeros(1 << 10, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        values.add_(1)
        ready.wait()
        go.wait()
        for number in range(LAUNCHES):
            values.add_(1)
            if number < BLOCKS:
                cudart.free(cudart.malloc(1 << 20))


def main():
    torch.zeros(1, device="cuda").add_(1)
    cudart = Cudart()
    ready, go = threading.Barrier(THREADS + 1), threading.Event()
    threads = [threading.Thread(target=worker, args=(cudart, ready, go)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    ready.wait()
    torch.cuda.synchronize()
    print("ready", flush=True)
    sys.stdin.readline()
    begin = now()
    go.set()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    write({"window": [begin, now()], "launches": THREADS * LAUNCHES, "blocks": THREADS * BLOCKS, "threads": THREADS})
    print("done", flush=True)
    sys.stdin.readline()


main()
