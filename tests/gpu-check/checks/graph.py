"""A CUDA graph: launches while it is captured, and one call for each replay."""

from checks import launches
from gpu_check.report import GRAPH_LAUNCHES


def check(bench, name):
    truth, recording = bench.record(name)
    bench.complete(name, recording)
    profile, replays = truth["profile"], truth["replays"]
    window = recording.report(profile["window"], label="window")
    bench.table.equal(name, "graph launches", window.calls(*GRAPH_LAUNCHES), replays)
    in_graphs = sum(count for _, _, count in profile["graph_kernels"])
    capture = recording.report(truth["capture"], label="capture")
    bench.table.equal(
        name, "launches while capturing, as kernels of all replays",
        capture.launches() * replays, in_graphs,
        cause=f"{capture.launches()} launches captured; the profiler saw {in_graphs} kernels in {replays} replays",
        note=f"{capture.launches()} launches captured",
    )
    launches.compare(bench, name, window, profile)
    recording.drop()
