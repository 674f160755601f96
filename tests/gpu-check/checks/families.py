"""Every family of calls, call by call, against what the program was told by the calls themselves."""

import json
import subprocess

from gpu_check.events import CAPTURED, SPREADING, host_functions, live_physical_bytes, nodes, results, threads, work_run
from gpu_check.report import LAUNCHES

# Of a call of the truth: no columns.
NOT_COLUMNS = {"api", "result", "captured", "recorded"}
# One line: UUID and bus id of the first device.
SMI = ("nvidia-smi", "--query-gpu=uuid,pci.bus_id", "--format=csv,noheader", "--id=0")


def check(bench, name):
    truth, recording = bench.record(name, timeout=100)
    bench.complete(name, recording)
    events = recording.events()
    compare_process(bench, name, events, truth)
    compare_graphs(bench.table, name, events, truth)
    compare_identity(bench, name, events, truth)
    if truth["child"]:
        child = bench.truth(f"{name}-child", truth["child"])
        compare_process(bench, f"{name}, second process", events, child)
        compare_handles(bench.table, name, events, truth, child)
    recording.drop()


def compare_process(bench, name, events, truth):
    """All calls of one process, function by function."""
    table = bench.table
    says_how_it_went(table, name, events, truth)
    rows = events.calls(truth["pid"], truth["window"])
    programs = [row for row in rows if events.is_the_programs(row)]
    made, unseen = {}, 0
    for call in truth["made"]:
        if call.get("recorded", True):
            made.setdefault(call["api"], []).append(call)
        else:
            unseen += 1
    ours = {api: [] for api in made}
    others = {}
    for row in programs:
        if row.api in ours:
            ours[row.api].append(row)
        else:
            others[row.api] = others.get(row.api, 0) + 1
    for api in sorted(made):
        compare_function(table, name, api, ours[api], made[api])
    table.information(
        name, "calls that the program did not make itself, by function", others,
        note="CUDA's libraries make them inside functions that are not traced",
    )
    told = sum(call.get("captured", False) for calls in made.values() for call in calls)
    flagged = [row for row in programs if row.flags & CAPTURED and row.api not in SPREADING]
    table.equal(name, "calls flagged as captured, in all", len(flagged), told)
    if unseen:
        table.information(name, "events recorded outside of a capture: no rows, by design", "", unseen)
    physical = live_physical_bytes(programs)
    table.equal(name, "physical memory that is live at the end, bytes", physical, 0)
    bench.keep(f"{name.replace(', ', '-').replace(' ', '-')}-calls.json", json.dumps(
        {api: {"cudasnoop": [row._asdict() for row in ours[api]], "truth": made[api]} for api in sorted(made)}, indent=1,
    ))


def says_how_it_went(table, name, events, truth):
    """What the program could not do is a row, with its reason."""
    for broken in truth["broken"]:
        table.failed(name, broken["family"], f"the program could not go on: {broken['why']}")
    for surprise in truth["surprises"]:
        table.failed(
            name, f"{surprise['api']}, call {surprise['number']} of the program",
            f"it returned {surprise['result']}, where the program expects one of {surprise['expected']}",
        )
    for feature in truth["features"]:
        works = feature["result"] == 0
        table.information(
            name, f"feature: {feature['name']}", "works" if works else f"refused with {feature['result']}",
            "supported" if feature["supported"] else "not supported", "right: the call; left of it, the device's attribute",
        )
        if works != feature["supported"]:
            table.failed(name, f"feature: {feature['name']}", "the call does not do as the device's attribute says")
    if truth["absent"]:
        missing = {symbol for fact in events.facts_of("module") for symbol in fact["missing"]}
        absent = sorted(set(truth["absent"]))
        table.equal(
            name, "functions that the library does not export, and that cudasnoop names as missing",
            [api for api in absent if api in missing], absent,
        )


def compare_function(table, name, api, ours, theirs):
    """Calls by result with the bytes of the successful ones; then each call with all that is known of it."""
    launch = api in LAUNCHES
    expected = {}
    for call in theirs:
        # Launches are probed at entry only: their results are not known.
        result = "unknown" if launch else str(call["result"])
        expected[result] = expected.get(result, 0) + 1
    found, wanted = results(ours), expected
    claim = "calls by result"
    if any(call.get("size") for call in theirs):
        claim += ", bytes"
        found = [found, sum(row.size or 0 for row in ours if row.result == 0)]
        wanted = [wanted, sum(call["size"] or 0 for call in theirs if call["result"] == 0)]
    table.equal(name, f"{api}: {claim}", found, wanted)
    columns = sorted({key for call in theirs for key in call} - NOT_COLUMNS)
    captures = any("captured" in call for call in theirs)
    if len(ours) != len(theirs) or not (columns or captures):
        return
    fields = [*columns, "captured"] if captures else columns
    pairs = [only_different(own(row, call, columns), told(call, columns)) for row, call in zip(ours, theirs)]
    table.series(name, f"{api}: each call's {', '.join(fields)}", *map(list, zip(*pairs)))


def only_different(ours, theirs):
    """The two without what they agree on, so that a row shows where they differ."""
    keys = [key for key in theirs if ours[key] != theirs[key]]
    return {key: ours[key] for key in keys}, {key: theirs[key] for key in keys}


def own(row, call, columns):
    """What the recording has of a call, as far as the program was told of it."""
    values = {column: getattr(row, column) for column in columns if column in call}
    if "captured" in call:
        values["captured"] = bool(row.flags & CAPTURED)
    return values


def told(call, columns):
    values = {column: call[column] for column in columns if column in call}
    if "captured" in call:
        values["captured"] = call["captured"]
    return values


def compare_graphs(table, name, events, truth):
    """Launches, captured ones and graph launches together, against the GPU's own counter."""
    rows = events.calls(truth["pid"], truth["window"])
    programs = [row for row in rows if events.is_the_programs(row)]
    table.equal(
        name, "threads run, from launches, captures and graph launches; counted by the kernel on the GPU",
        work_run(programs, threads), truth["threads"],
    )
    table.equal(
        name, "host functions run, likewise; counted by the function itself",
        work_run(programs, host_functions), truth["host_functions"],
    )
    asked = nodes(programs)
    table.series(
        name, "calls captured into each graph, nodes that it has", [calls for calls, _ in asked], [count for _, count in asked],
    )
    named = {events.kernel_name(row) for row in programs if row.api in LAUNCHES}
    table.equal(name, "names of all launched kernels", sorted(named, key=str), [truth["kernel"]])


def compare_identity(bench, name, events, truth):
    """The device fact against the program's own answers and against nvidia-smi."""
    facts = events.facts_of("device", pid=truth["pid"], ordinal=0)
    identity = truth["identity"] or {"uuids": [], "buses": []}
    # A later fact of the same ordinal adds what was unknown.
    for key, answers in (("uuid", identity["uuids"]), ("pci_bus_id", identity["buses"])):
        ours = sorted({fact[key].lower() for fact in facts if fact[key]})
        theirs = sorted({answer.lower() for answer in answers})
        bench.table.equal(name, f"{key} of device 0, as each call told the program", ours, theirs)
    try:
        smi = subprocess.run(SMI, capture_output=True, text=True, check=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError) as error:
        bench.table.information(name, "nvidia-smi", str(error))
        return
    uuid = smi.split(",")[0].strip()
    bench.table.equal(
        name, "uuid of device 0, as nvidia-smi has it", sorted({fact["uuid"] for fact in facts if fact["uuid"]}), [uuid],
        note=smi.strip(),
    )


EXPORTS = ("cudaIpcGetMemHandle", "cuIpcGetMemHandle")
OPENS = ("cudaIpcOpenMemHandle", "cuIpcOpenMemHandle_v2")


def compare_handles(table, name, events, truth, child):
    """A handle that one process shows has the same fingerprint where another opens it."""
    def fingerprints(story, apis):
        rows = events.calls(story["pid"], story["window"], apis)
        return [row.handle for row in rows if events.is_the_programs(row) and row.result == 0]

    shown, opened = fingerprints(truth, EXPORTS), fingerprints(child, OPENS)
    blocks = sum(call["api"] in OPENS and call["result"] == 0 for call in child["made"])
    table.equal(name, "handles opened in one process that the other one shows", sum(h in shown for h in opened), blocks)
    table.equal(name, "blocks that these handles tell apart", len(set(shown)), blocks)
