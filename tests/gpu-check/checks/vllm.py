"""A real vLLM engine, recorded from before its start, against its own PyTorch at its end."""

from checks.torch_memory import state
from gpu_check.report import GRAPH_LAUNCHES, LAUNCHES


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
    seconds = sum(end - begin for begin, end in truth["windows"]) / 1e9
    table.information(name, "tokens generated while recorded", "", truth["tokens"], note=f"{truth['tokens'] / seconds:,.0f} a second")
    for command in ("report", "fragmentation"):
        recording.text(command)
    recording.drop()
