"""Findings: each habit is found, and nothing else raises an alarm."""

from concurrent.futures import ThreadPoolExecutor

from gpu_check.process import Dialogue

HABITS = (
    "launch_bound", "pageable", "small_copies", "serialized", "sync_storm", "scalars", "busy", "loading", "unwaited",
    "pinned_segments", "stranded", "page_waste", "partly_free", "healthy",
)
# These have the device for themselves.
HUNGRY = ("given_up", "refused", "retried")
# These take a while, and little else.
PATIENT = ("leaks", "cache_grows", "cycles", "orphan", "failed", "fatal", "sleeps_in_vain")
# The command that has a family's findings, too.
COMMANDS = {
    "launch": "launches", "transfer": "transfers", "sync": "syncs", "fragmentation": "fragmentation",
    "leak": "leaks", "allocator": "leaks", "error": "errors",
}
# A call that has not returned for 30 s hangs.
HANGING = 33


def check(bench, name):
    for habit in HABITS:
        judge(bench, name, habit, *record(bench, name, habit))


def check_failing(bench, name):
    for habit in HUNGRY:
        judge(bench, name, habit, *record(bench, name, habit))
    with ThreadPoolExecutor() as pool:
        hanging = pool.submit(record_hanging, bench, name)
        recorded = {habit: pool.submit(record, bench, name, habit) for habit in PATIENT}
        for habit, future in recorded.items():
            judge(bench, name, habit, *future.result())
        judge(bench, name, "hanging", *hanging.result())


def judge(bench, name, habit, recording, truth):
    """Whether the findings are those that the truth has."""
    bench.complete(f"{name}: {habit}", recording)
    document = recording.report(truth["window"], pid=truth["pid"], label="findings").document
    findings = document["findings"]
    claims = "; ".join(f"{kind(f)}: {f['claim']}" for f in findings)
    alarms = sorted({kind(f) for f in findings if f["severity"] != "info"})
    bench.table.equal(f"{name}: {habit}", "critical findings and warnings", alarms, sorted(truth["found"]), note=claims)
    for noted in truth["noted"]:
        bench.table.equal(f"{name}: {habit}", f"{noted}, noted", noted in {kind(f) for f in findings}, True)
    for wanted in truth["found"]:
        if command := COMMANDS.get(wanted.split(".")[0]):
            recording.text(command)
    recording.drop()


def record(bench, name, habit):
    """Records one habit, and the kinds of findings that its truth has."""
    words, path = bench.script("findings", f"{name}-{habit}")
    recording = bench.record_command(f"{name}-{habit}", [*words, habit], timeout=200)
    return recording, bench.truth(f"{name}-{habit}", path)


def record_hanging(bench, name):
    """A running program waits for a kernel that takes too long, and the recording ends before it does."""
    words, _ = bench.script("hanging", f"{name}-hanging")
    with Dialogue(words) as program:
        program.hear(bench.left(90))
        with bench.attached(f"{name}-hanging", program.pid) as recording:
            program.say(str(HANGING + 20))
            bench.sleep(HANGING)
    truth = {"window": None, "pid": program.pid, "found": ["recording.hanging_call"], "noted": ["recording.late_start"]}
    return recording, truth


def kind(finding):
    return finding["id"].split(":")[0]
