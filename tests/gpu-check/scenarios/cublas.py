"""Matrix products: cuBLAS carries a CUDA runtime of its own, so only the driver sees them."""

import torch
from truth import profiled, write

ROUNDS = 10


def main():
    torch.manual_seed(0)
    pairs = [
        (torch.randn(m, k, device="cuda").to(kind), torch.randn(k, n, device="cuda").to(kind))
        for kind in (torch.float64, torch.float32, torch.float16, torch.bfloat16)
        for m, k, n in ((64, 64, 64), (512, 256, 1024), (1, 4096, 4096), (1000, 33, 77))
    ]
    batch = torch.randn(8, 128, 128, device="cuda")
    bias = torch.randn(1024, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(1024, 512, device="cuda", dtype=torch.bfloat16)
    rows = torch.randn(256, 512, device="cuda", dtype=torch.bfloat16)

    def products(rounds):
        for _ in range(rounds):
            for left, right in pairs:
                torch.mm(left, right)
            torch.bmm(batch, batch)
            # A bias takes the path through cublasLt.
            torch.nn.functional.linear(rows, weight, bias)

    products(2)
    write({"profile": profiled(lambda: products(ROUNDS))})


main()
