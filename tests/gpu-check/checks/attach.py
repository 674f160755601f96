"""Attaching to a running process: from then on, the calls of all its threads."""

from gpu_check.process import Dialogue
from gpu_check.report import LAUNCHES


def check(bench, name):
    words, path = bench.script("attached")
    with Dialogue(words) as program:
        program.hear(bench.left(90))
        with bench.attached(name, program.pid) as recording:
            program.say("go")
            program.hear(bench.left(90))
        program.say("quit")
        status = program.end(bench.left(30))
    truth = bench.truth(name, path)
    bench.complete(name, recording)
    report = recording.report(truth["window"], label="window")
    threads = truth["threads"]
    bench.table.equal(name, f"kernel launches of {threads} running threads", report.calls(*LAUNCHES), truth["launches"])
    for function in ("cudaMalloc", "cudaFree"):
        bench.table.equal(name, f"{function} of {threads} running threads", report.calls(function), truth["blocks"])
    bench.table.equal(name, "the program's exit status", status, 0)
    recording.drop()
