"""A vLLM engine with default settings on a small Llama with made-up weights.

V1: the engine runs in a process of its own, compiles, captures CUDA graphs. Its own PyTorch is
asked for the truth, in that process, before it ends.
"""

import sys

import tiny_llama

ROUNDS = 3


def torch_totals(worker):
    """Runs in the engine's worker."""
    import os
    import time

    import torch

    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    return {
        "pid": os.getpid(),
        "at": time.monotonic_ns(),
        "allocated": stats["allocated_bytes.all.current"],
        "reserved": stats["reserved_bytes.all.current"],
        # Not "active": that has the freed blocks too that another stream may still use.
        "blocks": stats["allocation.all.current"],
        "segments": stats["num_device_alloc"],
        "segments_freed": stats["num_device_free"],
    }


def main():
    from truth import now, write

    with tiny_llama.engine() as llm:
        generated, windows = 0, []
        for _ in range(ROUNDS):
            begin = now()
            generated += tiny_llama.generate(llm)
            windows.append([begin, now()])
        workers = llm.collective_rpc(torch_totals)
        write({"tokens": generated, "windows": windows, "workers": workers}, sys.argv[1])


if __name__ == "__main__":
    main()
