"""Device memory of all kinds against cudaMemGetInfo, to the page, after each step."""


def check(bench, name):
    # Modules that load at their first kernel would take device memory in between.
    truth, recording = bench.record(name, env={"CUDA_MODULE_LOADING": "EAGER"})
    bench.complete(name, recording)
    for kinds, moments in truth["series"].items():
        states = [device_of(recording.memory(moment["at"])) for moment in moments]
        if kinds == "arrays":
            information(bench.table, name, states, moments)
            continue
        first, *_ = states
        bench.table.series(
            name, f"{kinds}: bytes held, from the first moment on; cudaMemGetInfo",
            [state["held_bytes"] - first["held_bytes"] for state in states],
            [moments[0]["free"] - moment["free"] for moment in moments],
            cause="device memory moved without an allocation call, or the page model is wrong",
        )
        bench.table.series(
            name, f"{kinds}: unattributed bytes do not move",
            [state["unattributed_bytes"] for state in states], [first["unattributed_bytes"]] * len(states),
        )
    pools = truth["series"]["pools"]
    states = [device_of(recording.memory(moment["at"])) for moment in pools]
    bench.table.series(
        name, "pools: bytes held; what the pools say that they hold (cudaMemPoolAttrReservedMemCurrent)",
        [state["held_bytes"] for state in states], [moment["pool_reserved"] for moment in pools],
    )
    recording.drop()


def information(table, name, states, moments):
    """How the device pads arrays is its own: their pages are an estimate from below."""
    off = [
        (moments[0]["free"] - moment["free"]) - (state["held_bytes"] - states[0]["held_bytes"])
        for state, moment in zip(states, moments)
    ]
    table.information(
        name, "arrays: bytes that the device took beyond those held, least and most of all moments",
        f"{min(off)} to {max(off)}",
    )


def device_of(document):
    """The only process's only device."""
    (device,) = [
        device for process in document["processes"] for device in process["devices"] if device["device"] == 0
    ]
    return device
