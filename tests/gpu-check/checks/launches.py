"""Kernel launches against the kernel activities of the PyTorch profiler."""

import re

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
    """Kernels that come and go, and whose handles are used again: a name may be missing, and never another kernel's."""
    truth, recording = bench.record(name, timeout=150)
    bench.complete(name, recording)
    for life in ("short_lived", "long_lived"):
        profile = truth[life]["profile"]
        report = recording.report(profile["window"], label=life)
        compare_reused(bench.table, name, life.replace("_", "-"), report.kernels(), truth[life])
    recording.drop()


def compare_reused(table, name, life, kernels, truth):
    """Launches by the length of the transform, which the kernel's name has. The profiler is no truth here: it calls
    kernels by the names of others."""
    transforms = {int(length): count for length, count in truth["transforms"].items()}
    ours, profiler = by_length(kernels), by_length((kernel, count) for kernel, _, count in truth["profile"]["kernels"])
    unnamed = ours.pop(None, 0)
    launched = sum(transforms.values())
    table.equal(name, f"{life} plans: kernel launches", sum(ours.values()) + unnamed, launched)
    wrong = sum(max(0, count - transforms.get(length, 0)) for length, count in ours.items())
    table.equal(name, f"{life} plans: launches under another kernel's name", wrong, 0, cause=f"{ours}")
    if life == "short-lived":
        table.information(
            name, f"{life} plans: launches without a name, and all", unnamed, launched,
            "a module that is gone right after its launches takes their names along",
        )
    else:
        table.equal(name, f"{life} plans: launches by length", ours, transforms)
    table.information(
        name, f"{life} plans: launches by length, as the profiler has them", "", profiler,
        "wrong, as if it kept names by handles, which are used again",
    )


def by_length(kernels):
    """{length of the transform: launches}, in order; None for kernels of which it is not known."""
    counts = {}
    for kernel, count in kernels:
        # `..._fft_r2c<48u, ...>`, as it is and mangled.
        found = re.search(r"_fft_r2c(?:ILj|<)(\d+)[Eu]", kernel or "")
        length = int(found[1]) if found else None
        counts[length] = counts.get(length, 0) + count
    return dict(sorted(counts.items(), key=lambda item: item[0] or 0))


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
