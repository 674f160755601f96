"""Attaching to a running process: from then on, the calls of all its threads."""

from checks import launches
from gpu_check.process import Dialogue
from gpu_check.report import LAUNCHES


def record(bench, name, script):
    """Records a program from the middle of its life on: its truth, the recording and its exit status."""
    words, path = bench.script(script)
    with Dialogue(words) as program:
        program.hear(bench.left(90))
        with bench.attached(name, program.pid) as recording:
            program.say("go")
            program.hear(bench.left(90))
        program.say("quit")
        status = program.end(bench.left(30))
    truth = bench.truth(name, path)
    bench.complete(name, recording)
    return truth, recording, status


def check_names(bench, name):
    """Kernels that were all looked up before: of the runtime's launches, and of libraries' own."""
    truth, recording, _ = record(bench, name, name)
    profile = truth["profile"]
    launches.compare(bench, name, recording.report(profile["window"], label="window"), profile)
    recording.drop()


def check(bench, name):
    truth, recording, status = record(bench, name, "attached")
    report = recording.report(truth["window"], label="window")
    threads = truth["threads"]
    bench.table.equal(name, f"kernel launches of {threads} running threads", report.calls(*LAUNCHES), truth["launches"])
    for function in ("cudaMalloc", "cudaFree"):
        bench.table.equal(name, f"{function} of {threads} running threads", report.calls(function), truth["blocks"])
    bench.table.equal(name, "the program's exit status", status, 0)
    recording.drop()
