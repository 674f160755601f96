"""Plans of cuFFT that come and go, and with them modules and kernel handles.

First each plan ends as soon as its transform is launched, then it lives for longer than cudasnoop holds a name back.
Each transform is one kernel, and the kernel's name has its length: cuFFT makes a kernel of its own for each.
"""

import time

import torch
from truth import profiled, write

LENGTHS = (48, 64, 100, 128, 243, 512, 1024, 2048)
SHORT_LIVED, LONG_LIVED = 5, 3
LIFE = 1.3


def main():
    torch.manual_seed(0)
    inputs = [torch.randn(4, length, device="cuda") for length in LENGTHS]
    plans = torch.backends.cuda.cufft_plan_cache

    def short_lived():
        plans.max_size = 0
        for _ in range(SHORT_LIVED):
            for values in inputs:
                torch.fft.rfft(values)

    def long_lived():
        plans.max_size = 1
        for values in inputs:
            for _ in range(LONG_LIVED):
                torch.fft.rfft(values)
            torch.cuda.synchronize()
            time.sleep(LIFE)

    # Kernels that are looked up by name show where the driver keeps names.
    inputs[0].sin().cos().exp().sum()
    short_lived()
    time.sleep(5)
    long_lived()
    write({
        "short_lived": {"profile": profiled(short_lived), "transforms": dict.fromkeys(LENGTHS, SHORT_LIVED)},
        "long_lived": {"profile": profiled(long_lived), "transforms": dict.fromkeys(LENGTHS, LONG_LIVED)},
    })


main()
