"""Two GPUs: a rank of NCCL on each, copies between them, blocks that a thread of the other one frees.

Each rank is a process of its own and writes a truth of its own.
"""

import os
import sys
import threading

MIB = 1 << 20
REDUCES, MOVES, PEER_COPIES, SIZE = 10, 7, 5, 8 * MIB


def uuids():
    """Of each device that the process sees, in its own order."""
    import torch

    return ["GPU-" + str(torch.cuda.get_device_properties(i).uuid).removeprefix("GPU-") for i in range(torch.cuda.device_count())]


def rank_main(rank, folder):
    import torch
    import torch.distributed as distributed
    from truth import Cudart, now, write

    torch.cuda.set_device(rank)
    begin = now()
    distributed.init_process_group("nccl", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    values = torch.full(((rank + 1) * MIB,), rank + 1.0, device="cuda")
    shared = torch.full((4 * MIB,), rank + 1.0, device="cuda")
    for _ in range(REDUCES):
        distributed.all_reduce(shared, op=distributed.ReduceOp.MAX)
        values.add_(1)
    torch.cuda.synchronize()
    if shared[0].item() != 2.0:
        raise RuntimeError("the ranks did not reduce")
    cudart = Cudart()
    sizes = [(rank + 1) * MIB, (rank + 3) * MIB]
    blocks = [cudart.malloc(size) for size in sizes]
    stats = torch.cuda.memory_stats()
    write({
        "rank": rank,
        "pid": os.getpid(),
        "uuids": uuids(),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "reserved": stats["reserved_bytes.all.current"],
        "segments": stats["num_device_alloc"],
        "blocks": [[address, size] for address, size in zip(blocks, sizes)],
        "window": [begin, now()],
    }, os.path.join(folder, f"rank-{rank}.json"))
    for block in blocks:
        cudart.free(block)
    distributed.destroy_process_group()


def one_process():
    """Both devices from one process: its truth."""
    import ctypes

    import torch
    from truth import Cudart, now

    both = uuids()
    here = torch.ones(SIZE, dtype=torch.uint8, device="cuda:0")
    there = torch.empty(SIZE, dtype=torch.uint8, device="cuda:1")
    there.copy_(here)
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    cudart = Cudart()

    moves = now()
    for _ in range(MOVES):
        there.copy_(here)
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    moves = [moves, now()]

    copy, pointer, size = cudart.library.cudaMemcpyPeerAsync, ctypes.c_void_p, ctypes.c_size_t
    copy.argtypes = [pointer, ctypes.c_int, pointer, ctypes.c_int, size, pointer]
    peers = now()
    for number in range(PEER_COPIES):
        if error := copy(there.data_ptr(), 1, here.data_ptr(), 0, SIZE - number, None):
            raise RuntimeError(f"cudaMemcpyPeerAsync returned {error}")
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    peers = [peers, now()]
    return {
        "pid": os.getpid(), "uuids": both, "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "moves": {"window": moves, "count": MOVES, "bytes": MOVES * SIZE},
        "peers": {"window": peers, "sizes": [SIZE - number for number in range(PEER_COPIES)],
                  "to": there.data_ptr(), "from": here.data_ptr()},
        "freed": freed_from_the_other(cudart),
    }


def freed_from_the_other(cudart):
    """Blocks of device 0, freed by a thread whose device is 1."""
    import torch
    from truth import now

    torch.cuda.set_device(0)
    sizes = [3 * MIB, 5 * MIB, 40 * MIB]
    blocks = [cudart.malloc(size) for size in sizes]
    taken = now()
    told = {}

    def free():
        set_device = cudart.library.cudaSetDevice
        told["result"] = set_device(1)
        told["tid"] = threading.get_native_id()
        for block in blocks:
            cudart.free(block)

    thread = threading.Thread(target=free)
    thread.start()
    thread.join()
    return {**told, "tid of the allocations": threading.get_native_id(), "blocks": [list(pair) for pair in zip(blocks, sizes)],
            "taken": taken, "done": now()}


def main():
    folder = sys.argv[1] + ".d"
    os.makedirs(folder)

    import torch.multiprocessing

    torch.multiprocessing.spawn(rank_main, args=(folder,), nprocs=2)

    from truth import write

    write({"folder": folder, "ranks": 2, **one_process()})


if __name__ == "__main__":
    main()
