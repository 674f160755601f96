"""Fourier transforms: cuFFT launches kernels by handles that no call of the driver gives out."""

import torch
from truth import profiled, write

ROUNDS = 5


def main():
    torch.manual_seed(0)
    inputs = [
        torch.randn(batch, length, device="cuda", dtype=kind)
        for kind in (torch.float32, torch.float64, torch.complex64)
        for batch, length in ((16, 31), (16, 100), (4, 1024), (2, 4096), (8, 1031))
    ]
    image = torch.randn(4, 128, 96, device="cuda")

    def transforms(rounds):
        for _ in range(rounds):
            for values in inputs:
                torch.fft.fft(values)
            torch.fft.irfft2(torch.fft.rfft2(image))

    # Plans are made once, and kept.
    transforms(2)
    write({"profile": profiled(lambda: transforms(ROUNDS))})


main()
