"""`cudasnoop oom`: the verdict on real messages, with and without recording and snapshot."""

import json
import shutil
from pathlib import Path

# Larger snapshots are not kept beside the results.
SMALL = 256 << 10


def check(bench, name):
    truth, recording = bench.record(name, timeout=180)
    bench.complete(name, recording)
    for case in truth["cases"]:
        cause, snapshot = case["verdict"], Path(case["snapshot"])
        log = bench.work / f"{name}-{cause}.log"
        log.write_text(case["message"] + "\n", encoding="utf-8")
        bench.keep(log.name, case["message"] + "\n")
        if snapshot.exists() and snapshot.stat().st_size <= SMALL:
            shutil.copy(snapshot, bench.artefacts / f"{name}-{cause}.pickle")
        for source, words in {
            "message": [],
            "message, recording": ["--recording", recording.path],
            "message, snapshot": ["--snapshot", snapshot],
            "message, recording, snapshot": ["--recording", recording.path, "--snapshot", snapshot],
        }.items():
            messages = ask(bench, f"{name}-{cause}-{source.replace(', ', '-')}", [log, *words])
            first = messages[0] if len(messages) == 1 else {}
            bench.table.equal(
                name, f"{cause}: verdict by {source}", first.get("verdict"),
                case["by_message" if source == "message" else "verdict"],
                cause=first.get("because", f"{len(messages)} messages found"),
            )
            bench.table.equal(
                name, f"{cause}: sources used", ", ".join(first.get("sources", [])), source,
                cause="the recording or the snapshot was not found to be of this moment",
            )
    # Only this process asked in vain.
    alone = [m for m in ask(bench, f"{name}-recording", ["--recording", recording.path]) if m["pid"] == truth["pid"]]
    bench.table.equal(
        name, "verdicts by the recording alone",
        [message["verdict"] for message in alone], [case["verdict"] for case in truth["cases"]],
        cause="; ".join(message["because"] for message in alone),
    )
    recording.drop()


def ask(bench, label, words):
    document = json.loads(bench.cudasnoop(["oom", *words, "--json"]).stdout)
    bench.keep(f"{label}.json", json.dumps(document, indent=1))
    return document["messages"]
