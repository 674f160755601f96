"""Children by fork, by exec and by torch.multiprocessing: each counted by itself."""

from pathlib import Path

from gpu_check.report import DEVICE_WAITS, LAUNCHES


def check(bench, name):
    truth, recording = bench.record(name, timeout=150)
    bench.complete(name, recording)
    table = bench.table
    paths = sorted(Path(truth["folder"]).glob("child-*.json"))
    table.equal(name, "children that told their truth", len(paths), truth["children"])
    for path in paths:
        child = bench.truth(f"{name}-{path.stem}", path)
        kind, pid = child["kind"], child["pid"]
        window = recording.report(child["window"], pid=pid, label=path.stem)
        rows = [
            ("kernel launches", window.calls(*LAUNCHES), child["launches"]),
            ("cudaMalloc", window.calls("cudaMalloc"), child["blocks"]),
            ("cudaFree", window.calls("cudaFree"), child["blocks"]),
            ("cudaDeviceSynchronize", window.calls(*DEVICE_WAITS), child["synchronizations"]),
        ]
        for claim, ours, theirs in rows:
            table.equal(name, f"{path.stem}, {kind}: {claim}", ours, theirs)
        before = recording.report([None, child["window"][0]], pid=pid)
        table.equal(
            name, f"{path.stem}, {kind}: cudaMalloc from its first call on, num_device_alloc",
            before.calls("cudaMalloc"), child["segments"],
        )
    recording.drop()
