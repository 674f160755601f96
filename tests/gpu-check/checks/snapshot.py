"""`cudasnoop snapshot` against PyTorch's viewer and statistics, and against the recording of the run."""

import json
import shutil
from pathlib import Path

from checks.torch_memory import EXPANDABLE

# Larger files are not kept beside the results.
SMALL = 256 << 10


def check(bench, name, env=None):
    truth, recording = bench.record(name, script="snapshot", env=env)
    bench.complete(name, recording)
    for dumped in truth["snapshots"]:
        compare(bench, name, dumped, recording, truth["pid"])
    recording.drop()


def check_expandable(bench, name):
    check(bench, name, EXPANDABLE)


def compare(bench, name, dumped, recording, pid):
    state, path = dumped["state"], Path(dumped["file"])
    words = ["snapshot", path, "--json", "--recording", recording.path]
    document = json.loads(bench.cudasnoop(words).stdout)
    bench.keep(f"{name}-{state}.json", json.dumps(document, indent=1))
    if path.stat().st_size <= SMALL:
        shutil.copy(path, bench.artefacts / f"{name}-{state}.pickle")
    devices = document["devices"]
    device = devices[0] if len(devices) == 1 else {}
    viewer, stats = dumped["viewer"], dumped["stats"]
    keys = ("segments", "reserved", "requested", "free_external", "free_internal")
    bench.table.equal(
        name, f"{state}: the viewer's sums", {key: device.get(key) for key in keys}, {key: viewer[key] for key in keys}
    )
    bench.table.equal(name, f"{state}: memory_stats()", statistics(device), stats)
    history = device.get("history") or {}
    bench.table.equal(
        name, f"{state}: entries and times out of memory in the history",
        [history.get("entries", 0), history.get("out_of_memory_count", 0)], [viewer["entries"], viewer["ooms"]],
    )
    joined = document["recording"]["devices"][0] if document["recording"]["devices"] else {}
    bench.table.equal(
        name, f"{state}: blocks of the recording that are not equal",
        differing(joined, "blocks"), 0, cause=first_difference(joined),
        note=f"{joined.get('blocks_equal')} equal",
    )
    bench.table.equal(
        name, f"{state}: segments of the recording that are not equal",
        differing(joined, "segments"), 0, cause=first_difference(joined),
        note=f"{joined.get('segments_equal')} equal",
    )
    bench.table.equal(name, f"{state}: the process that it is of", joined.get("pid"), pid)


def statistics(device):
    """A device's numbers as memory_stats() counts: what was requested stays there until its free is done."""
    if not device:
        return None
    blocks = [block for segment in device["segments_by_address"] for block in segment["blocks"]]
    pending = sum(block["requested"] for block in blocks if block["state"] == "active_pending_free")
    counted = {key: device[key] for key in ("allocated", "reserved", "allocated_blocks", "pending_free")}
    return {**counted, "requested": device["requested"] + pending}


def differing(joined, what):
    if joined.get("pid") is None:
        return None
    return joined[f"{what}_only_in_snapshot"] + joined[f"{what}_only_in_recording"]


def first_difference(joined):
    for difference in joined.get("differences", []):
        return "{what} {address} of {size} bytes only in the {only_in}".format(**difference)
    return "no process of the recording has a block in common" if joined.get("pid") is None else ""
