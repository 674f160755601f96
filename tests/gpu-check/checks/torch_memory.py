"""PyTorch's caching allocator, from outside, against what it says of itself at 50 moments."""

from pathlib import PurePath

from gpu_check.events import blocks_at, mapped_at, ranges

EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}


def check(bench, name, env=None):
    truth, recording = bench.record(name, script="torch_memory", env=env)
    bench.complete(name, recording)
    checkpoints = truth["checkpoints"]
    states = [state(recording.fragmentation(point["at"]), truth["pid"]) for point in checkpoints]
    series = [
        ("allocated bytes", "allocated"),
        ("reserved bytes", "reserved"),
        ("active blocks", "active_blocks"),
        ("bytes of active blocks", "active_bytes"),
        ("every active block: address, size", "blocks"),
        ("every segment: address, size", "segments"),
    ]
    for claim, key in series:
        ours = [state[key] for state in states]
        theirs = [point[key] for point in checkpoints]
        bench.table.series(name, claim, ours, theirs)
    if truth["expandable"]:
        compare_mappings(bench.table, name, recording.events(), truth)
    recording.text("fragmentation")
    recording.drop()


def compare_mappings(table, name, events, truth):
    """What cuMemMap and cuMemUnmap left mapped, by the rows of the recording alone."""
    rows = events.calls(truth["pid"])
    checkpoints = truth["checkpoints"]
    moments = [point["at"] for point in checkpoints]
    reserved = {row.address for row in rows if row.api == "cuMemAddressReserve" and row.result == 0}
    # PyTorch may take a segment by cudaMalloc, too; what other libraries take is none of its.
    own = [row for row in rows if PurePath(events.caller(row) or "").name.startswith("libc10")]
    blocks = blocks_at(own, moments)
    mapped = mapped_at(rows, moments)
    table.series(
        name, "bytes mapped by cuMemMap, less cuMemUnmap, and PyTorch's cudaMalloc; reserved bytes",
        [sum(ours.values()) + sum(taken.values()) for ours, taken in zip(mapped, blocks)],
        [point["reserved"] for point in checkpoints],
    )
    segments = [ranges({**ours, **taken}, reserved | taken.keys()) for ours, taken in zip(mapped, blocks)]
    table.series(
        name, "every mapped range: address, size; segments of memory_snapshot()", segments,
        [point["segments"] for point in checkpoints],
    )
    calls = {api: count for api, count in events.counts(pid=truth["pid"]).items() if api.startswith("cuMem") and "cpy" not in api}
    table.information(name, "calls of virtual memory management", calls)
    failed = {api: sum(row.api == api and row.result not in (0, None) for row in rows) for api in ("cuMemCreate", "cuMemMap")}
    table.information(name, "failed ones among them", failed, note="one request is larger than the device")


def check_expandable(bench, name):
    check(bench, name, EXPANDABLE)


def state(document, pid):
    """The caching allocator of one process, in the terms of torch.cuda.memory_stats()."""
    found = [
        device["torch"]
        for process in document["processes"] if process["pid"] == pid
        for device in process["devices"] if device["torch"]
    ]
    if len(found) != 1:
        return dict.fromkeys(("allocated", "reserved", "active_blocks", "active_bytes", "blocks", "segments"))
    torch = found[0]
    blocks = [_place(block) for segment in torch["segments"] for block in segment["blocks"]]
    return {
        "allocated": torch["allocated"],
        "reserved": torch["reserved"],
        # Of blocks in unknown segments only the number and the bytes are told.
        "active_blocks": len(blocks) + torch["unplaced_blocks"],
        "active_bytes": sum(size for _, size in blocks) + torch["unplaced_bytes"],
        "blocks": sorted(blocks),
        "segments": sorted(_place(segment) for segment in torch["segments"]),
    }


def _place(range_):
    return [int(range_["address"], 16), range_["size"]]
