"""The same calls in every run: what two ways of counting are compared on."""

import torch
from truth import Cudart, write

ROUNDS = 500


def main():
    values = torch.zeros(1 << 16, device="cuda")
    pinned = torch.zeros(1 << 16).pin_memory()
    cudart = Cudart()
    for _ in range(ROUNDS):
        values.add_(1)
        values.copy_(pinned, non_blocking=True)
        torch.cuda.current_stream().synchronize()
    for _ in range(50):
        cudart.free(cudart.malloc(1 << 20))
    torch.cuda.synchronize()
    write({"rounds": ROUNDS})


main()
