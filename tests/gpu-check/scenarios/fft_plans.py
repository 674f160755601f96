"""Plans of cuFFT that are made and ended all the time, and with them modules and kernel handles."""

import torch
from truth import profiled, write

ROUNDS = 5
LENGTHS = (31, 48, 64, 100, 128, 243, 512, 1024, 2048, 4096)


def main():
    torch.manual_seed(0)
    torch.backends.cuda.cufft_plan_cache.max_size = 0
    inputs = [torch.randn(4, length, device="cuda") for length in LENGTHS]

    def transforms(rounds):
        for _ in range(rounds):
            for values in inputs:
                torch.fft.rfft(values)

    transforms(1)
    write({"profile": profiled(lambda: transforms(ROUNDS))})


main()
