"""Device memory of all kinds, taken and given back in turns: after each step, what the device has free.

One process, modules loaded eagerly, no PyTorch: nothing but these calls moves the device's memory.
"""

import ctypes
import random

from family.calls import Calls, pointer, to
from family.structures import DEVICE, ChannelFormat, Location, PoolProperties
from family.vmm import Physical
from truth import now, write

KIB, MIB = 1 << 10, 1 << 20
STEPS = 60
SIZES = (1, 512, 4 * KIB, 64 * KIB, MIB - 512, MIB, MIB + 1, 3 * MIB // 2, 2 * MIB - 512, 2 * MIB, 2 * MIB + 1, 3 * MIB, 20 * MIB + 1, 33 * MIB, 257 * MIB)
ARRAYS = (4 * KIB, 64 * KIB, MIB, 3 * MIB // 2, 3 * MIB, 20 * MIB + 4 * KIB)
RESERVED_NOW = 5  # cudaMemPoolAttrReservedMemCurrent


class Program:
    def __init__(self):
        self.calls = Calls()
        self.calls.plain("cuInit", 0)
        self.calls.plain("cudaFree", 0)
        self.stream = self.calls.stream()
        self.physical = Physical(self.calls)
        self.default_pool, self.own_pool = pointer(), pointer()
        self.calls.must("cudaDeviceGetDefaultMemPool", to(self.default_pool), 0)
        properties = PoolProperties(type=1, handle_types=0, location=Location(DEVICE, 0))
        self.calls.must("cudaMemPoolCreate", to(self.own_pool), to(properties))
        self.moments = []

    def note(self, what):
        """What the device has free, and what the pools hold, by their own attribute."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.calls.must("cudaMemGetInfo", to(free), to(total))
        at, reserved = now(), 0
        for pool in (self.default_pool, self.own_pool):
            bytes_ = ctypes.c_uint64()
            self.calls.plain("cudaMemPoolGetAttribute", pool, RESERVED_NOW, to(bytes_))
            reserved += bytes_.value
        self.moments.append({"at": at, "step": what, "free": free.value, "pool_reserved": reserved})

    def device(self, size):
        block = pointer()
        self.calls.must("cudaMalloc", to(block), size)
        return lambda: self.calls.must("cudaFree", block)

    def driver(self, size):
        block = pointer()
        self.calls.must("cuMemAlloc_v2", to(block), size)
        return lambda: self.calls.must("cuMemFree_v2", block)

    def pool(self, size):
        """Pools keep nothing beyond a synchronization: their release threshold is 0 until it is set."""
        block = pointer()
        self.calls.must("cudaMallocAsync", to(block), size, self.stream)
        return self.given_back_in_order(block)

    def another_pool(self, size):
        block = pointer()
        self.calls.must("cudaMallocFromPoolAsync", to(block), size, self.own_pool, self.stream)
        return self.given_back_in_order(block)

    def given_back_in_order(self, block):
        self.calls.must("cudaStreamSynchronize", self.stream)

        def give():
            self.calls.must("cudaFreeAsync", block, self.stream)
            self.calls.must("cudaStreamSynchronize", self.stream)

        return give

    def array(self, size):
        """As tall as the size needs: its rows are 4 KiB."""
        handle, width = pointer(), 4 * KIB
        channel = ChannelFormat(8, 0, 0, 0, 1)
        self.calls.must("cudaMallocArray", to(handle), to(channel), width, -(-size // width), 0)
        return lambda: self.calls.must("cudaFreeArray", handle)

    def mapped(self, size):
        unit = self.physical.granularity
        size = -(-size // unit) * unit
        address = self.physical.reserve(size)
        handle, result = self.physical.create(size)
        assert result == 0, result
        self.physical.map(address, size, handle)
        self.physical.release(handle)

        def give():
            self.physical.unmap(address, size)
            self.calls("cuMemAddressFree", address, size)

        return give

    def run(self, kinds, sizes, steps):
        """Takes and gives in a random order, the same in each run, and at last gives all back."""
        chance, live = random.Random(5), []
        self.note("begin")
        for _ in range(steps):
            if live and chance.random() < 0.45:
                what, give = live.pop(chance.randrange(len(live)))
                give()
                self.note(f"free {what}")
            else:
                take, size = chance.choice(kinds), chance.choice(sizes)
                live.append((f"{take.__name__} {size}", take(size)))
                self.note(f"take {take.__name__} {size}")
        while live:
            what, give = live.pop()
            give()
            self.note(f"free {what}")


def main():
    program = Program()
    # The first of each kind sets up what the next ones find.
    device, mapped = [program.device, program.driver], [program.mapped]
    pools = [program.pool, program.another_pool]
    for kind in (*device, *mapped, *pools):
        kind(2 * MIB)()
    program.note("warm")
    series = {"device": device, "vmm": mapped, "device and vmm": device + mapped, "pools": pools,
              "all": device + mapped + pools, "arrays": [program.array]}
    truth = {}
    for name, kinds in series.items():
        program.moments = []
        program.run(kinds, ARRAYS if name == "arrays" else SIZES, STEPS)
        truth[name] = program.moments
    write({"series": truth})


main()
