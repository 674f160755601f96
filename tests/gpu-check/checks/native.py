"""CUDA C++ programs built here by nvcc: they know how often they call what."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from checks.launches import compare_names
from gpu_check import process, report as functions
from gpu_check.bench import FOLDER

SOURCE = FOLDER / "programs" / "calls.cu"
# What nvcc binds to in the place of cudaLaunchKernel and the copies, with per-thread streams.
TWINS = ("cudaLaunchKernel_ptsz", "cudaMemcpyAsync_ptsz", "cudaMemcpy_ptds")
# Options of nvcc. A shared runtime is probed itself; of a static one only the driver's calls are.
BUILDS = {
    "static runtime": [],
    "shared runtime": ["-cudart", "shared"],
    "static, per-thread streams": ["--default-stream", "per-thread"],
    "shared, per-thread streams": ["--default-stream", "per-thread", "-cudart", "shared"],
}


def check(bench, name):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        bench.table.skipped(name, "there is no nvcc on PATH")
        return
    toolkit = Path(nvcc).resolve().parent.parent
    # A shared runtime is found where the toolkit has it, whatever the loader's settings.
    paths = [f"-Xlinker=-rpath={toolkit / libraries}" for libraries in ("lib64", "targets/x86_64-linux/lib")]

    def build(kind):
        program = bench.work / f"{name} {kind}".replace(",", "").replace(" ", "-")
        command = [nvcc, "-arch=native", "-O1", *BUILDS[kind], *paths, SOURCE, "-o", program]
        process.run(command, bench.left(120)).check()
        return program

    with ThreadPoolExecutor() as pool:
        builds = {kind: pool.submit(build, kind) for kind in BUILDS}
    for kind, built in builds.items():
        label = f"{name}: {kind}"
        try:
            check_program(bench, label, built.result())
        except (process.CommandFailed, OSError, ValueError, KeyError) as error:
            bench.table.failed(label, "", str(error))


def check_program(bench, label, program):
    path = program.with_suffix(".truth.json")
    recording = bench.record_command(program.name, [program, path])
    truth = bench.truth(program.name, path)
    report = bench.complete(label, recording)
    compare(bench.table, label, report, truth)
    if "shared" in label and "per-thread" in label:
        symbols = sorted(name for name in TWINS if name.encode() in program.read_bytes())
        bench.table.equal(label, "the program imports the per-thread twins", symbols, sorted(TWINS))
    recording.drop()


def compare(table, label, report, truth):
    """Every number that the program states, whatever library saw the call: each call once."""
    calls = report.by_function()
    rows = [
        ("kernel launches", report.calls(*functions.LAUNCHES), sum(truth["kernels"].values())),
        ("allocations, failed ones too", report.calls(*functions.MALLOCS), truth["mallocs"] + truth["failed_mallocs"]),
        ("failed allocations", report.errors(*functions.MALLOCS), truth["failed_mallocs"]),
        ("allocated bytes", report.bytes(*functions.MALLOCS), truth["malloc_bytes"]),
        ("frees", report.calls(*functions.FREES), truth["frees"]),
        ("live bytes at the end", report.live_bytes(), 0),
        ("device waits", report.calls(*functions.DEVICE_WAITS), truth["device_waits"]),
        ("stream waits", report.calls(*functions.STREAM_WAITS), truth["stream_waits"]),
        ("event waits", report.calls(*functions.EVENT_WAITS), truth["event_waits"]),
        ("graph launches", report.calls(*functions.GRAPH_LAUNCHES), truth["graph_launches"]),
    ]
    for claim, ours, theirs in rows:
        table.equal(label, claim, ours, theirs, cause=f"all calls: {calls}")
    copies = report.copies()
    table.equal(
        label, "copies, and their bytes", [sum(column) for column in zip(*copies.values())],
        [sum(column) for column in zip(*truth["copies"].values())], cause=f"by direction: {copies}",
    )
    table.equal(label, "copies by direction", copies, truth["copies"], cause=f"all calls: {calls}")
    compare_names(table, label, report.kernels(), list(truth["kernels"].items()))
