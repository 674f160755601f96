"""Reads Trace Event JSON as a browser does, with doubles: `chrome.py RECORDING TRACE [KINETO]`."""

import json
import sys
from collections import Counter, defaultdict

import truth

recording, trace = sys.argv[1:3]
events = truth.rows(recording)
trace = json.load(open(trace), parse_int=float)
base = trace["baseTimeNanoseconds"]
assert base == int(base)
first = next(fact for fact in truth.facts(events) if fact["fact"] == "clock")
shift = first["realtime"] - first["monotonic"] - int(base)


def ns(microseconds):
    return round(microseconds * 1000)


def key(event):
    start, length = truth.span(event)
    return truth.title(event), event["pid"], start + shift, length


shown = [event for event in trace["traceEvents"] if event["ph"] in "Xi"]
assert Counter(
    (event["name"], event["pid"] - 1e9, ns(event["ts"]), ns(event["dur"]) if "dur" in event else None)
    for event in shown
) == Counter(map(key, events))
assert Counter(event["args"]["seq"] for event in shown) == Counter(event["seq"] for event in events)
by_seq = {event["seq"]: event for event in events}
for event in shown:
    source, arguments = by_seq[event["args"]["seq"]], event["args"]
    for column in ("size", "result", "device", "api", "kernel", "flags"):
        assert arguments.get(column) == source[column], (column, event, source)
    for column in ("address", "stream", "handle"):
        value = arguments.get(column)
        assert (value and int(value, 16)) == source[column] or source[column] == int(value or "0", 16)

tracks = defaultdict(list)
for event in shown:
    if event["ph"] == "X":
        tracks[event["pid"], event["tid"]].append((ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])))
for slices in tracks.values():
    truth.check_nesting(slices)
named = {(event["pid"], event["tid"]) for event in trace["traceEvents"] if event["name"] == "thread_name"}
assert named == {(event["pid"], event["tid"]) for event in shown}

reports = [event for event in events if event["allocated"] is not None]
counters = [event for event in trace["traceEvents"] if event["ph"] == "C"]
torch = [event["args"] for event in counters if event["name"].startswith("PyTorch bytes")]
assert torch == [{"allocated": event["allocated"], "reserved": event["reserved"]} for event in reports]
print(len(shown), max(tid for _, tid in tracks))

if len(sys.argv) > 3:
    # As docs/export.md says: the events of both in one list.
    kineto = json.load(open(sys.argv[3]), parse_int=float)
    assert kineto["baseTimeNanoseconds"] == base, "the traces need different bases"
    merged = kineto["traceEvents"] + trace["traceEvents"]
    theirs = {event["name"]: event for event in merged if event.get("cat") == "cuda_runtime"}
    ours = {event["name"]: event for event in merged if event.get("args", {}).get("kind") == "call"}
    pairs = [(event, ours[name]) for name, event in theirs.items()]
    assert pairs
    for inner, outer in pairs:
        assert outer["ts"] <= inner["ts"]
        assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
        assert (inner["pid"], inner["tid"]) != (outer["pid"], outer["tid"])
    merged_tracks = defaultdict(list)
    for event in merged:
        if event["ph"] == "X":
            merged_tracks[event["pid"], event["tid"]].append((ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])))
    for slices in merged_tracks.values():
        truth.check_nesting(slices)
