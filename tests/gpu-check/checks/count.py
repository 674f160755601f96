"""`count` against `record`: the same program, counted in the kernel and row by row."""

import json

from gpu_check.report import LAUNCHES, counted


def check(bench, name):
    script = "deterministic"
    truth, recording = bench.record(name, script=script)
    report = bench.complete(name, recording)
    words, _ = bench.script(script)
    done = bench.cudasnoop(["count", "--json", "--", *words], timeout=120)
    bench.keep(f"{name}.json", done.stdout)
    counts = counted(json.loads(done.stdout))
    rows = report.by_function()
    for function in sorted(set(rows) | set(counts)):
        bench.table.equal(name, f"{function}: record and, as truth, count", rows.get(function, 0), counts.get(function, 0))
    bench.table.equal(
        name, "made by the kernel's counters, rows", sum(report.made().values()), sum(rows.values()),
        cause=f"made: {report.made()}",
    )
    least = sum(counts.get(function, 0) for function in LAUNCHES) >= truth["rounds"]
    bench.table.equal(name, "the program's launches are among them", least, True)
    recording.drop()
