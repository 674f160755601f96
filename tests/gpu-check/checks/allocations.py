"""Device memory against PyTorch's own counters and against cudaMemGetInfo."""


def check(bench, name):
    # Modules that load at their first kernel would take device memory in between.
    truth, recording = bench.record(name, env={"CUDA_MODULE_LOADING": "EAGER"})
    bench.complete(name, recording)
    table, before, after = bench.table, truth["before"], truth["after"]
    since_start = recording.report([None, truth["window"][1]], label="since-start")
    window = recording.report(truth["window"], label="window")
    for function, key in (("cudaMalloc", "num_device_alloc"), ("cudaFree", "num_device_free")):
        table.equal(
            name, f"successful {function} since the start, {key}",
            since_start.calls(function) - since_start.errors(function), after[key],
            cause=f"until the first checkpoint {since_start.calls(function) - window.calls(function)} "
                  f"calls, of which PyTorch counts {before[key]}: the others are not its allocator's",
        )
        table.equal(
            name, f"{function} between two checkpoints", window.calls(function), after[key] - before[key],
        )
    table.equal(
        name, "live device bytes, torch.cuda.memory_reserved()", since_start.live_bytes(), truth["reserved"],
        cause=f"allocations of device memory by function: {since_start.by_function('cudaMalloc', 'cuMemAlloc_v2')}",
    )
    compare_moments(bench, name, recording, truth["moments"])
    recording.drop()


def compare_moments(bench, name, recording, moments):
    """Live bytes and held pages after each step, from the first moment on."""
    reports = [recording.report([None, moment["at"]]) for moment in moments]
    bench.table.series(
        name, "live device bytes after each step", [report.live_bytes() for report in reports],
        [moment["live"] for moment in moments],
    )
    held = [held_bytes(recording.fragmentation(moment["at"])) for moment in moments]
    bench.table.series(
        name, "device pages held after each step, in bytes; cudaMemGetInfo",
        [bytes_ - held[0] for bytes_ in held],
        [moments[0]["free"] - moment["free"] for moment in moments],
        cause="device memory moved without an allocation call, or the page model is wrong",
    )


def held_bytes(document):
    """Bytes of the pages that live blocks touch, all processes and devices together."""
    devices = [device for process in document["processes"] for device in process["devices"]]
    return sum(device["driver"]["held_bytes"] for device in devices if device["driver"])
