"""Two GPUs: which device each call is about, in whatever order the process counts them."""

import shutil
import subprocess
from pathlib import Path, PurePath

from gpu_check.events import blocks_at, live_physical_bytes, results
from gpu_check.report import LAUNCHES, MALLOCS

# The first run says which order; in the second, ordinal 0 is the other card.
ORDERS = {"in order": "0,1", "swapped": "1,0"}


def check(bench, name):
    listed = smi()
    if len(listed) < 2:
        bench.table.skipped(name, f"the machine has {len(listed)} GPU, not two")
        return
    orders = {}
    for label, visible in ORDERS.items():
        orders[label] = check_order(bench, f"{name}, {label}", visible, listed)
    bench.table.equal(name, "devices of the second run, the other way round", orders["swapped"], orders["in order"][::-1])


def smi():
    """UUIDs by `nvidia-smi -L`, in its order."""
    if shutil.which("nvidia-smi") is None:
        return []
    lines = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False, timeout=20).stdout.splitlines()
    return [line.split("UUID: ")[1].rstrip(")") for line in lines if "UUID: GPU-" in line]


def check_order(bench, name, visible, listed):
    """One recording. Returns the UUIDs of the ordinals, as the recording has them."""
    label = name.replace(", ", "-").replace(" ", "-")
    shutil.rmtree(bench.work / "twogpus.truth.json.d", ignore_errors=True)
    # Without it the driver counts the fastest first, nvidia-smi by the bus.
    # NCCL without NVLink multicast, which some virtual machines lack though the device says it has it.
    env = {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NCCL_NVLS_ENABLE": "0"}
    truth, recording = bench.record(label, script="twogpus", env=env, timeout=75)
    whole = bench.complete(name, recording)
    events = recording.events()
    wanted = [listed[int(number)] for number in visible.split(",")]
    ordinals = compare_devices(bench.table, name, events, truth, wanted, visible)
    paths = sorted(Path(truth["folder"]).glob("rank-*.json"))
    bench.table.equal(name, "ranks that told their truth", len(paths), truth["ranks"])
    for path in paths:
        rank = bench.truth(f"{label}-{path.stem}", path)
        compare_devices(bench.table, f"{name}: rank {rank['rank']}", events, rank, wanted, visible)
        compare_rank(bench.table, f"{name}: rank {rank['rank']}", events, rank)
    compare_copies(bench.table, name, events, truth)
    compare_frees(bench.table, name, recording, events, truth)
    bench.table.information(name, "all calls by function", "", note=str(whole.by_function()))
    recording.drop()
    return ordinals


def compare_devices(table, name, events, truth, wanted, visible):
    """What the recording says that the process's ordinals mean."""
    known = {}
    for fact in events.facts_of("device", pid=truth["pid"]):
        if fact["uuid"]:
            known[fact["ordinal"]] = fact["uuid"]
    ordinals = [known.get(ordinal) for ordinal in range(len(truth["uuids"]))]
    table.equal(name, "UUIDs of the ordinals, as PyTorch has them", ordinals, truth["uuids"])
    table.equal(name, "UUIDs of the ordinals, as nvidia-smi lists them", ordinals, wanted)
    facts = events.facts_of("process", pid=truth["pid"])
    # An earlier fact of the same process id is that of the program before exec.
    table.equal(name, "CUDA_VISIBLE_DEVICES", facts[-1]["visible_devices"] if facts else None, visible)
    return ordinals


def compare_rank(table, name, events, truth):
    """A rank uses one device; NCCL allocates beside PyTorch."""
    pid, rank = truth["pid"], truth["rank"]
    rows = [row for row in events.calls(pid) if row.ts <= truth["window"][1]]

    def of(module, apis):
        return [row for row in rows if row.api in apis and module in PurePath(events.caller(row) or "").name]

    torch_blocks = of("libc10_cuda", MALLOCS)
    succeeded = sum(row.result == 0 for row in torch_blocks)
    table.equal(name, "successful cudaMalloc by PyTorch, num_device_alloc", succeeded, truth["segments"])
    live = blocks_at([row for row in rows if "libc10_cuda" in (events.caller(row) or "")], [truth["window"][1]])[0]
    table.equal(name, "bytes of PyTorch's live blocks, reserved bytes", sum(live.values()), truth["reserved"])
    table.equal(name, "devices of PyTorch's blocks, the rank's", sorted({row.device for row in torch_blocks}, key=str), [rank])
    reports = [row for row in rows if row.api == "c10::reportMemoryUsageToProfiler"]
    table.equal(name, "devices of PyTorch's reports, the rank's", sorted({row.device for row in reports}, key=str), [rank])
    own = {row.address: (row.size, row.device) for row in rows if row.api == "cudaMalloc" and row.result == 0}
    table.equal(
        name, "size and device of the program's own blocks", [own.get(address) for address, _ in truth["blocks"]],
        [(size, rank) for _, size in truth["blocks"]],
    )
    launches = [row for row in rows if row.api in LAUNCHES]
    table.information(name, "kernel launches by the device of the thread", count_by(launches, lambda row: str(row.device)))
    table.equal(
        name, "launches through the runtime that the recording gives another device",
        sum(row.device != rank for row in launches if row.layer == "runtime"), 0,
    )
    compare_nccl(table, name, of, rank)


ALLOCATIONS = (*MALLOCS, "cuMemCreate", "cuMemHostAlloc", "cuMemAllocHost_v2", "cuMemHostRegister_v2")


def compare_nccl(table, name, of, rank):
    """Allocations that only libnccl.so.2 makes: through a runtime of its own, inside it."""
    nccl = of("libnccl.so.2", ALLOCATIONS)
    table.equal(name, "NCCL has allocations of its own", bool(nccl), True, cause="no row has libnccl.so.2 as its caller")
    by_function = count_by(nccl, lambda row: row.api)
    table.information(name, "NCCL's allocations by function", by_function, note=f"by result: {results(nccl)}")
    placed = [row for row in nccl if row.api == "cuMemCreate" and row.location == 1]
    others = [row for row in nccl if row.api in MALLOCS]
    table.information(
        name, "bytes of NCCL's physical memory on devices, and of its blocks",
        [sum(row.size for row in rows if row.result == 0) for rows in (placed, others)],
        note=f"live: {live_physical_bytes(of('libnccl.so.2', VIRTUAL)):,} bytes of physical memory",
    )
    if placed:
        table.equal(name, "devices of NCCL's physical memory, the rank's", sorted({row.location_id for row in placed}), [rank])
    if others:
        table.equal(name, "devices of NCCL's blocks, the rank's", sorted({row.device for row in others}, key=str), [rank])


VIRTUAL = ("cuMemCreate", "cuMemRetainAllocationHandle", "cuMemRelease", "cuMemMap", "cuMemUnmap")


def compare_copies(table, name, events, truth):
    """Copies between the devices, by PyTorch and by cudaMemcpyPeerAsync."""
    pid, moves, peers = truth["pid"], truth["moves"], truth["peers"]
    apis = ("cudaMemcpyAsync", "cudaMemcpyPeerAsync", "cuMemcpyAsync", "cuMemcpyDtoDAsync_v2", "cuMemcpyPeerAsync")
    rows = events.calls(pid, moves["window"], apis)
    table.equal(
        name, "PyTorch's copies between devices, bytes", [len(rows), sum(row.size for row in rows)],
        [moves["count"], moves["bytes"]], note=f"through {count_by(rows, lambda row: row.api)}",
    )
    rows = events.calls(pid, peers["window"], ("cudaMemcpyPeerAsync",))
    fields = "device", "source_device", "address", "source", "size"
    table.series(
        name, f"cudaMemcpyPeerAsync: each call's {', '.join(fields)}", [[getattr(row, field) for field in fields] for row in rows],
        [[1, 0, peers["to"], peers["from"], size] for size in peers["sizes"]],
    )


def compare_frees(table, name, recording, events, truth):
    """Blocks of device 0 that a thread frees whose device is 1: they leave device 0."""
    freed, pid = truth["freed"], truth["pid"]
    if freed["result"] != 0:
        table.failed(name, "the freeing thread's choice of device 1", f"cudaSetDevice returned {freed['result']}")
    addresses = {address: size for address, size in freed["blocks"]}
    rows = [row for row in events.calls(pid) if row.address in addresses and row.ts <= freed["done"]]
    taken = {row.address: row for row in rows if row.api == "cudaMalloc"}
    given = {row.address: row for row in rows if row.api == "cudaFree"}
    for claim, side, tid, device in (
        ("taken", taken, freed["tid of the allocations"], 0), ("freed", given, freed["tid"], None),
    ):
        table.equal(name, f"blocks {claim}: thread", sorted({side[a].tid for a in addresses if a in side}), [tid])
        if device is not None:
            devices = [side[a].device for a in addresses if a in side]
            table.equal(name, f"blocks {claim}: device", devices, [device] * len(addresses))
    table.information(
        name, "blocks freed: the device of the row, which is that of the thread",
        sorted({str(row.device) for row in given.values()}),
    )
    before, after = (live_by_device(recording.report([None, freed[key]]), pid) for key in ("taken", "done"))
    change = {device: before.get(device, 0) - after.get(device, 0) for device in before.keys() | after.keys()}
    table.equal(
        name, "live bytes that the frees took from device 0, from device 1 and from an unknown one",
        [change.get(device, 0) for device in (0, 1, None)], [sum(addresses.values()), 0, 0],
    )


def live_by_device(report, pid):
    live = {}
    for row in report.document["memory"]:
        if row["pid"] == pid:
            live[row["device"]] = live.get(row["device"], 0) + row["live_bytes"]
    return live


def count_by(rows, key):
    counts = {}
    for row in rows:
        counts[key(row)] = counts.get(key(row), 0) + 1
    return counts
