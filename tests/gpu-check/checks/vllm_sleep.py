"""vLLM's sleep mode: every call of virtual memory management, and the bytes that it is about."""

from pathlib import PurePath

from gpu_check.events import live_physical_bytes, mapped_at, results

# Calls of one run of vLLM 0.24.0 with this model, from start to exit, failed ones too; and of
# cuMemCreate those that failed. For comparison, no claim.
COUNTED = {
    "cuMemCreate": 288, "cuMemMap": 144, "cuMemUnmap": 72, "cuMemRelease": 72, "cuMemAddressReserve": 72, "cudaMalloc": 18,
}
FAILED_CREATES = 144
VIRTUAL = (
    "cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemRelease", "cuMemAddressReserve", "cuMemAddressFree", "cuMemSetAccess",
)


def check(bench, name):
    if bench.vllm is None:
        bench.table.skipped(name, "no --vllm SITE was given")
        return
    truth, recording = bench.record(name, env={"PYTHONPATH": str(bench.vllm)}, timeout=150)
    bench.complete(name, recording)
    table, events, pid = bench.table, recording.events(), truth["pid"]
    rows = events.calls(pid)
    for api, counted in COUNTED.items():
        ours = [row for row in rows if row.api == api]
        table.information(
            name, f"{api}, an earlier count", len(ours), counted,
            f"difference {len(ours) - counted:+,}; by result: {results(ours)}",
        )
    failed = sum(row.api == "cuMemCreate" and row.result != 0 for row in rows)
    table.information(name, "failed cuMemCreate, an earlier count", failed, FAILED_CREATES)
    compare_moments(table, name, events, rows, truth["moments"])
    compare_changes(table, name, rows, truth["moments"])
    modules = {PurePath(events.caller(row) or "unknown").name for row in rows if row.api == "cuMemCreate"}
    table.information(name, "modules that call cuMemCreate", sorted(modules))
    runtimes = {PurePath(fact["path"]).name for fact in events.facts_of("module") if "libcudart" in fact["path"]}
    table.information(name, "CUDA runtimes that are traced", sorted(runtimes), note="some wheels bring a copy of their own")
    recording.text("report")
    recording.drop()


def compare_moments(table, name, events, rows, moments):
    """Physical memory and mappings at each moment; asleep there are none."""
    # Of vLLM's allocator: PyTorch may use virtual memory, too.
    own = [row for row in rows if "cumem_allocator" in (events.caller(row) or "")]
    virtual = sum(row.api in VIRTUAL for row in rows)
    table.information(name, "virtual memory calls by vLLM's allocator, by all", sum(row.api in VIRTUAL for row in own), virtual)
    for moment, mapped in zip(moments, mapped_at(own, [moment["at"] for moment in moments])):
        asleep = moment["state"] == "asleep"
        until = [row for row in own if row.ts <= moment["at"]]
        wanted = (0, 0) if asleep else (moment["blocks"], moment["bytes"])
        table.equal(name, f"{moment['state']}: blocks mapped, vLLM's own count", len(mapped), wanted[0])
        table.equal(name, f"{moment['state']}: bytes mapped, vLLM's own count", sum(mapped.values()), wanted[1])
        physical = live_physical_bytes(until)
        table.equal(name, f"{moment['state']}: bytes of live physical memory, vLLM's own count", physical, wanted[1])
        table.information(
            name, f"{moment['state']}: physical memory on the device in all, and used by all that runs there",
            live_physical_bytes([row for row in rows if row.ts <= moment["at"]]), moment["total"] - moment["free"],
            "torch.cuda.mem_get_info()",
        )


def compare_changes(table, name, rows, moments):
    """Falling asleep and waking up, call by call: once for each block."""
    awake, asleep, again = moments
    for claim, window, wanted, blocks in (
        ("falling asleep", (awake["at"], asleep["at"]), ("cuMemUnmap", "cuMemRelease"), awake["blocks"]),
        ("waking up", (asleep["at"], again["at"]), ("cuMemCreate", "cuMemMap"), again["blocks"]),
    ):
        within = [row for row in rows if window[0] <= row.ts <= window[1]]
        for api in wanted:
            ours = [row for row in within if row.api == api]
            table.equal(
                name, f"{claim}: successful {api}, vLLM's blocks", sum(row.result == 0 for row in ours), blocks,
                note=f"all by result: {results(ours)}",
            )
    for claim, begin, end in (("falling asleep", awake, asleep), ("waking up", asleep, again)):
        copies = [row for row in rows if begin["at"] <= row.ts <= end["at"] and row.api == "cudaMemcpy" and row.result == 0]
        table.equal(
            name, f"{claim}: cudaMemcpy, bytes; weights that sleep level 1 keeps on the host",
            [len(copies), sum(row.size for row in copies)], awake["weights"],
        )
    falling = [row for row in rows if awake["at"] <= row.ts <= asleep["at"]]
    unmapped = sum(row.size for row in falling if row.api == "cuMemUnmap" and row.result == 0)
    table.information(
        name, "bytes unmapped by falling asleep, and what the device has free then that it had not", unmapped,
        asleep["free"] - awake["free"], "PyTorch's cache is emptied, too",
    )
