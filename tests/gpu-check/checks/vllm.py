"""A real vLLM engine, recorded from before its start, against its own PyTorch at its end."""

from pathlib import PurePath

from checks.torch_memory import state
from gpu_check.report import GRAPH_LAUNCHES, LAUNCHES

BEGINS = ("cudaStreamBeginCapture", "cudaStreamBeginCaptureToGraph", "cuStreamBeginCapture_v2", "cuStreamBeginCaptureToGraph")
ENDS = ("cudaStreamEndCapture", "cuStreamEndCapture")
INSTANTIATES = (
    "cudaGraphInstantiate", "cudaGraphInstantiateWithFlags", "cudaGraphInstantiateWithParams",
    "cuGraphInstantiate_v2", "cuGraphInstantiateWithFlags", "cuGraphInstantiateWithParams",
)
HOST_STUB_LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel")
REPORTS = "c10::reportMemoryUsageToProfiler"
# Calls from start to exit of one run of vLLM 0.24.0 with this model and these settings, counted
# by nothing but counters on all exported functions. How often an engine calls what depends on
# its host's speed, too: these figures are for comparison, no claim.
COUNTED = {
    (REPORTS,): 82_895,
    ("cuLaunchKernel",): 34_704,
    ("cuLaunchKernelEx",): 17_411,
    ("cudaLaunchKernel",): 19_011,
    ("cudaLaunchKernelExC",): 1_728,
    ("cuLibraryGetKernel",): 174,
    ("cuModuleGetFunction",): 45,
    ("cudaMemcpyAsync",): 4_543,
    ("cudaHostAlloc",): 3_189,
    ("cudaFreeHost",): 3_088,
    ("cudaDeviceSynchronize",): 1_009,
    ("cudaStreamBeginCapture",): 918,
    ("cudaStreamEndCapture",): 918,
    ("cudaGraphInstantiate", "cudaGraphInstantiateWithFlags"): 918,
    ("cudaGraphLaunch",): 291,
    ("cuMemAlloc_v2",): 253,
    ("cudaMalloc",): 250,
    ("cuMemFree_v2",): 161,
    ("cudaFree",): 160,
}
# Of cudaMemcpyAsync, by cudaMemcpyKind.
DIRECTIONS = {2: ("device to host", 3_472), 1: ("host to device", 595), 3: ("device to device", 476)}


def check(bench, name):
    if bench.vllm is None:
        bench.table.skipped(name, "no --vllm SITE was given")
        return
    truth, recording = bench.record(name, script="vllm_engine", env={"PYTHONPATH": str(bench.vllm)}, timeout=280)
    table = bench.table
    whole = bench.complete(name, recording)
    table.equal(name, "engine workers that told their truth", len(truth["workers"]), 1)
    for worker in truth["workers"]:
        pid, moment = worker["pid"], worker["at"]
        ours = state(recording.fragmentation(moment, label=f"worker-{pid}"), pid)
        for claim, our_key, key in (
            ("allocated bytes", "allocated", "allocated"),
            ("reserved bytes", "reserved", "reserved"),
            ("allocated blocks", "active_blocks", "blocks"),
        ):
            table.equal(name, f"engine's {claim} at its end", ours[our_key], worker[key])
        report = recording.report([None, moment], pid=pid, label=f"worker-{pid}-report")
        for function, key in (("cudaMalloc", "segments"), ("cudaFree", "segments_freed")):
            table.equal(
                name, f"engine's successful {function}", report.calls(function) - report.errors(function), worker[key],
                cause="the engine's libraries allocate beside PyTorch",
            )
    table.information(name, "kernel launches by function, all processes", whole.by_function(*LAUNCHES))
    table.information(name, "graph launches, all processes", whole.calls(*GRAPH_LAUNCHES))
    events = recording.events()
    compare_with_count(table, name, events)
    compare_relations(table, name, events)
    seconds = sum(end - begin for begin, end in truth["windows"]) / 1e9
    speed = f"{truth['tokens'] / seconds:,.0f} a second"
    table.information(name, "tokens generated while recorded", "", truth["tokens"], note=speed)
    for command in ("report", "fragmentation"):
        recording.text(command)
    recording.drop()


def compare_with_count(table, name, events):
    """Every function of the earlier count, folded driver calls included: that counted entries."""
    accounts = {fact["api"]: fact for fact in events.facts_of("account")}
    for functions, counted in COUNTED.items():
        found = [accounts[function] for function in functions if function in accounts]
        made, folded = sum(fact["made"] for fact in found), sum(fact["folded"] for fact in found)
        note = difference(made + folded, counted)
        if folded:
            note += f"; {folded:,} of them inside a runtime call of the same effect"
        table.information(name, f"entries of {' and '.join(functions)}; an earlier count", made + folded, counted, note)
    copies = events.calls(apis=("cudaMemcpyAsync",))
    for kind, (direction, counted) in DIRECTIONS.items():
        ours = sum(row.copy_kind == kind for row in copies)
        table.information(name, f"cudaMemcpyAsync {direction}; an earlier count", ours, counted, difference(ours, counted))
    others = sum(row.copy_kind not in DIRECTIONS for row in copies)
    table.information(name, "cudaMemcpyAsync of another kind", others, 0)


def difference(ours, counted):
    return f"difference {ours - counted:+,} ({(ours - counted) / counted:+.1%})"


def compare_relations(table, name, events):
    """What must hold between the numbers of any run."""
    begun, ended, made = (len(events.calls(apis=apis, succeeded=True)) for apis in (BEGINS, ENDS, INSTANTIATES))
    table.equal(name, "captures ended, and, as truth, begun", ended, begun)
    table.equal(name, "graphs instantiated, and, as truth, captures begun", made, begun)
    accounts = events.facts_of("account")
    parts = "reported", "lost_ring", "lost_pairing", "abandoned", "in_flight"
    table.equal(
        name, "calls reported, lost, abandoned and in flight, and, as truth, made",
        sum(fact[part] for fact in accounts for part in parts), sum(fact["made"] for fact in accounts),
    )
    rows = events.counts()
    wrong = [fact["api"] for fact in accounts if fact["reported"] != rows.get(fact["api"], 0)]
    table.equal(name, "functions whose account does not have as many calls as the recording has rows", wrong, [])
    compare_kernel_names(table, name, events)


def compare_kernel_names(table, name, events):
    launches = events.calls(apis=LAUNCHES)
    by_stub = [row for row in launches if row.api in HOST_STUB_LAUNCHES]
    named = sum(bool(events.kernel_name(row)) for row in by_stub)
    table.equal(
        name, "launches by host stub with a kernel's name, and, as truth, all of them", named, len(by_stub),
        cause=f"the others, by module: {nameless(events, by_stub)}",
    )
    others = [row for row in launches if row.api not in HOST_STUB_LAUNCHES]
    table.information(
        name, "launches by driver handle with a kernel's name, and all of them",
        sum(bool(events.kernel_name(row)) for row in others), len(others), f"the others, by module: {nameless(events, others)}",
    )


def nameless(events, rows):
    """{module of the kernel or else of the caller: launches without a name}."""
    counts = {}
    for row in rows:
        if not events.kernel_name(row):
            kernel = events.kernels.get(row.kernel) or {}
            module = PurePath(kernel.get("module") or events.caller(row) or "unknown").name
            counts[module] = counts.get(module, 0) + 1
    return counts or "none"
