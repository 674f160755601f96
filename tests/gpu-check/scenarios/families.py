"""Every family of CUDA calls, for real, by ctypes: the driver's and the runtime's own functions.

The program keeps what each call was told and what it returned; whatever a device lacks is noted
with what the device says of it. No PyTorch.
"""

import faulthandler
import json
import sys

from family import between, copies, device, graphs, kernels, memory, pool, sets, vmm
from family.calls import Calls
from truth import now, write


def main():
    calls = Calls()
    # What the first call sets up is no part of the claim.
    calls.plain("cuInit", 0)
    calls.plain("cudaFree", 0)
    begin, told = now(), {}

    def attempt(name, family, *arguments):
        try:
            told[name] = family(calls, *arguments)
        except Exception as error:  # One family must not take the others with it.
            calls.broken.append({"family": name, "why": f"{type(error).__name__}: {error}"})

    attempt("contexts", device.contexts)
    attempt("identity", device.identity)
    for family in (memory.device, memory.pitched, memory.managed, memory.pinned, memory.arrays, pool.pools,
                   vmm.virtual_memory, sets.sets):
        attempt(family.__name__, family)
    if context := told.get("contexts"):
        attempt("copies", copies.copies, context)
    attempt("modules", kernels.modules)
    attempt("launches and graphs", with_kernel, told)
    attempt("between processes", between.parent, __file__, sys.argv[1])
    attempt("reset", device.reset)
    write({
        **calls.truth(), "window": [begin, now()], "identity": told.get("identity"), "threads": told.get("threads"),
        "host_functions": len(kernels.ran), "kernel": kernels.NAME, "runtime": calls.runtime._name,
        "child": told.get("between processes"),
    })


def with_kernel(calls, told):
    kernel = kernels.Kernel(calls)
    kernels.launches(calls, kernel)
    graphs.graphs(calls, kernel)
    told["threads"] = kernel.threads()
    kernel.close()


def child(path):
    begin = now()
    calls = between.child(json.load(sys.stdin))
    write({**calls.truth(), "window": [begin, now()]}, path)


if __name__ == "__main__":
    # A wrong argument ends the program: then the recorder's stderr says where.
    faulthandler.enable()
    if sys.argv[1] == "child":
        child(sys.argv[2])
    else:
        main()
