"""Findings: each habit is found, and nothing else raises an alarm."""

HABITS = (
    "launch_bound", "pageable", "small_copies", "serialized", "sync_storm", "scalars",
    "pinned_segments", "stranded", "page_waste", "healthy",
)
# The command that has a family's findings, too.
COMMANDS = {"launch": "launches", "transfer": "transfers", "sync": "syncs", "fragmentation": "fragmentation"}


def check(bench, name):
    for habit in HABITS:
        recording, truth = record(bench, name, habit)
        bench.complete(f"{name}: {habit}", recording)
        document = recording.report(truth["window"], pid=truth["pid"], label="findings").document
        alarms = sorted(kind(f) for f in document["findings"] if f["severity"] != "info")
        claims = "; ".join(f"{kind(f)}: {f['claim']}" for f in document["findings"])
        bench.table.equal(f"{name}: {habit}", "critical findings and warnings", alarms, truth["found"], note=claims)
        for wanted in truth["found"]:
            recording.text(COMMANDS[wanted.split(".")[0]])
        recording.drop()


def record(bench, name, habit):
    """Records one habit, and the families that its truth has."""
    label = f"{name}-{habit}"
    words, truth = bench.script(name)
    recording = bench.record_command(label, [*words, habit])
    return recording, bench.truth(label, truth)


def kind(finding):
    return finding["id"].split(":")[0]
