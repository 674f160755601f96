"""torch.compile: Triton kernels, launched through the driver."""

import torch
from torch import nn
from truth import profiled, write

STEPS = 20


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 256), nn.Softmax(-1))
    model = torch.compile(model.cuda())
    rows = torch.randn(64, 256, device="cuda")

    def steps(number):
        with torch.no_grad():
            for _ in range(number):
                model(rows)

    steps(3)
    write({"profile": profiled(lambda: steps(STEPS))})


main()
