"""Copies by direction against what the program asked for."""


def check(bench, name):
    truth, recording = bench.record(name)
    bench.complete(name, recording)
    for phase in truth["phases"]:
        report = recording.report(phase["window"])
        bench.table.equal(
            name, f"{phase['name']}: copies, bytes", report.copies(),
            {phase["direction"]: [phase["count"], phase["bytes"]]},
            note=f"through {', '.join(report.by_function(*COPIES))}",
        )
    recording.drop()


COPIES = ("cudaMemcpy", "cudaMemcpyAsync", "cuMemcpy", "cuMemcpyAsync")
