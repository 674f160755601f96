"""Kernel launches against the kernel activities of the PyTorch profiler."""

from gpu_check import names
from gpu_check.report import LAUNCHES

# Why a launch may have no name.
UNNAMED = "no call told what their handle is called, and it could not be read"


def check(bench, name):
    """Records a program that profiles itself, and compares total, names and copies in its window."""
    truth, recording = bench.record(name, timeout=150)
    bench.complete(name, recording)
    profile = truth["profile"]
    report = recording.report(profile["window"], label="window")
    compare(bench, name, report, profile)
    recording.drop()


def check_reused(bench, name):
    """The same for a program that unloads its kernels: a name may be missing, and never another kernel's."""
    truth, recording = bench.record(name, timeout=150)
    bench.complete(name, recording)
    for life in ("short_lived", "long_lived"):
        profile = truth[life]
        report = recording.report(profile["window"], label=life)
        kernels = [(kernel, count) for kernel, _, count in profile["kernels"]]
        match = names.Match(report.kernels(), kernels)
        launched = sum(count for _, count in kernels)
        wrong = sum(max(0, found - wanted) for found, wanted in match.differences.values())
        claim = life.replace("_", "-") + " plans"
        bench.table.equal(name, f"{claim}: kernel launches", report.launches(), launched)
        bench.table.equal(
            name, f"{claim}: launches under another kernel's name", wrong, 0, cause=f"{match.differences}",
        )
        if life == "short_lived":
            bench.table.information(
                name, f"{claim}: launches without a name", match.nameless, launched,
                "right: all; a module that is gone right after its launches takes their names along",
            )
        else:
            compare_names(bench.table, name, report.kernels(), kernels)
    recording.drop()


def compare(bench, name, report, profile):
    table = bench.table
    kernels = profile["kernels"]
    launched = sum(count for _, _, count in kernels)
    ours = report.launches()
    table.equal(
        name, "kernel launches", ours, launched,
        cause=f"by call, cudasnoop: {report.by_function(*LAUNCHES)}; the profiler: {by_call(kernels)}",
    )
    table.information(
        name, "the same by the call that made them", report.by_function(*LAUNCHES), by_call(kernels),
        "the profiler names the runtime's call also where that runtime is a library's own",
    )
    copies = list(report.copies().values())
    table.equal(
        name, "copies, and their bytes", [sum(count for count, _ in copies), sum(size for _, size in copies)],
        profile["copies"],
    )
    compare_names(table, name, report.kernels(), [(kernel, count) for kernel, _, count in kernels])


def compare_names(table, name, ours, theirs):
    """One row for all names, and one for each whose launches differ."""
    match = names.Match(ours, theirs)
    steps = "; ".join(f"{count} {step}" for step, count in match.agreed.items())
    table.equal(
        name, "kernels on whose name and launches both agree", match.count(), match.kernels,
        cause=f"agreed on: {steps or 'none'}; rows below", note=steps,
    )
    if match.nameless:
        table.equal(name, "launches of kernels without a name", match.nameless, 0, cause=UNNAMED)
    for kernel, (found, wanted) in match.differences.items():
        cause = UNNAMED if match.nameless and found < wanted else ""
        table.equal(name, f"launches of {names.short(kernel)}", found, wanted, cause=cause)


def by_call(kernels):
    """{launching call: launches} of the profiler's kernels."""
    counts = {}
    for _, call, count in kernels:
        counts[call] = counts.get(call, 0) + count
    return counts
