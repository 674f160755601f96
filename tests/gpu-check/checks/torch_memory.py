"""PyTorch's caching allocator, from outside, against what it says of itself at 50 moments."""

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
        if truth["expandable"] and key in ("segments", "blocks") and not any(ours):
            bench.table.not_yet(name, claim, f"{len(theirs)} moments", "virtual memory calls are not traced yet")
            continue
        bench.table.series(name, claim, ours, theirs)
    recording.text("fragmentation")
    recording.drop()


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
