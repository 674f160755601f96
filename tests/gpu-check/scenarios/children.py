"""Children of all kinds: spawned by torch.multiprocessing, forked, and started as programs.

The parent itself calls nothing before it forks. Each child writes a truth of its own.
"""

import os
import subprocess
import sys

LAUNCHES, SYNCHRONIZATIONS = 700, 30


def child(number, folder):
    import torch
    from truth import Cudart, now, write

    values = torch.zeros(1 << 10, device="cuda")
    values.add_(1)
    cudart = Cudart()
    torch.cuda.synchronize()
    begin = now()
    launches = LAUNCHES + number
    for _ in range(launches):
        values.add_(1)
    blocks = 10 + number
    for _ in range(blocks):
        cudart.free(cudart.malloc(1 << 20))
    for _ in range(SYNCHRONIZATIONS):
        torch.cuda.synchronize()
    end = now()
    truth = {
        "kind": ("spawned", "spawned", "forked", "started")[number],
        "pid": os.getpid(),
        "window": [begin, end],
        "launches": launches,
        "blocks": blocks,
        "synchronizations": SYNCHRONIZATIONS,
        "segments": torch.cuda.memory_stats()["num_device_alloc"],
    }
    write(truth, os.path.join(folder, f"child-{number}.json"))


def main():
    folder = sys.argv[1] + ".d"
    os.makedirs(folder, exist_ok=True)
    forked = os.fork()
    if forked == 0:
        child(2, folder)
        os._exit(0)
    _, status = os.waitpid(forked, 0)
    subprocess.run([sys.executable, __file__, "child", "3", folder], check=True)

    import torch.multiprocessing

    torch.multiprocessing.spawn(child, args=(folder,), nprocs=2)

    from truth import write

    write({"folder": folder, "children": 4, "forked_status": status})


if __name__ == "__main__":
    if sys.argv[1] == "child":
        child(int(sys.argv[2]), sys.argv[3])
    else:
        main()
