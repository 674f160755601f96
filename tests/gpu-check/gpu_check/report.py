"""Reading `cudasnoop report --json` and `count --json`: the keys that the checks use, in one place."""

LAUNCHES = (
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaLaunchCooperativeKernel",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuLaunchCooperativeKernel",
)
MALLOCS = ("cudaMalloc", "cuMemAlloc_v2")
FREES = ("cudaFree", "cuMemFree_v2")
DEVICE_WAITS = ("cudaDeviceSynchronize", "cuCtxSynchronize", "cuCtxSynchronize_v2")
STREAM_WAITS = ("cudaStreamSynchronize", "cuStreamSynchronize")
EVENT_WAITS = ("cudaEventSynchronize", "cuEventSynchronize")
GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch")


class Report:
    """A report on a recording, or on a part of it. A folded driver call is in no number."""

    def __init__(self, document):
        self.document = document

    def calls(self, *functions):
        """Calls of these functions together."""
        return sum(row["calls"] for row in self.document["calls"] if row["api"] in functions)

    def by_function(self, *functions):
        """Calls of each of these functions that was called; without names, of all."""
        rows = self.document["calls"]
        return {row["api"]: row["calls"] for row in rows if row["calls"] and (not functions or row["api"] in functions)}

    def errors(self, *functions):
        """Failed calls of these functions together."""
        rows = [row for row in self.document["calls"] if row["api"] in functions]
        return sum(sum((row["errors"] or {}).values()) for row in rows)

    def bytes(self, *functions):
        """Bytes that successful calls of these functions allocated or copied."""
        return sum(row["bytes"] or 0 for row in self.document["calls"] if row["api"] in functions)

    def launches(self):
        return self.calls(*LAUNCHES)

    def kernels(self):
        """(name as the compiler made it or None, launches)."""
        return [(kernel["name"], kernel["launches"]) for kernel in self.document["kernels"]]

    def nameless(self):
        """Launches of kernels whose name the recording does not know."""
        return sum(launches for name, launches in self.kernels() if name is None)

    def copies(self):
        """Copies by direction, whatever the host's side: {direction: [successful copies, bytes]}."""
        copies = {}
        for row in self.document["copies"]:
            sums = copies.setdefault(row["direction"], [0, 0])
            sums[0] += row["copies"] - row["failed"]
            sums[1] += row["bytes"]
        return copies

    def live_bytes(self, pid=None):
        return sum(row["live_bytes"] for row in self.document["memory"] if pid in (None, row["pid"]))

    def torch(self, pid=None):
        """PyTorch's totals of one process and device, or None."""
        found = [row["torch"] for row in self.document["memory"] if row["torch"] and pid in (None, row["pid"])]
        return found[0] if len(found) == 1 else None

    def losses(self):
        """Losses by cause, those of 0 left out; a cause that the recording does not know is None."""
        return {cause: lost for cause, lost in self.document["recording"]["lost"].items() if lost != 0}

    def faults(self):
        """Everything that makes a comparison void: losses, a torn end, accounts that do not add up."""
        recording = self.document["recording"]
        faults = [f"lost {cause}: {lost}" for cause, lost in self.losses().items()]
        if not recording["complete"]:
            faults.append("the recording did not end as it should")
        faults += [f"account of {row['api']}" for row in self.document["accounts"] if not row["balanced"]]
        faults += [f"gap: {gap['reason']}" for gap in self.document["gaps"]]
        return faults

    def made(self):
        """{function: calls made}, from the kernel's own counters."""
        return {row["api"]: row["made"] for row in self.document["accounts"] if row["made"]}


def counted(document):
    """{function: calls} of `cudasnoop count --json`."""
    return {row["api"]: row["calls"] for row in document["calls"] if row["calls"]}
