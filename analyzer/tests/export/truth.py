"""What a recording says, read by pyarrow alone: no code of cudasnoop's."""

import json

import pyarrow.ipc


def rows(path):
    return pyarrow.ipc.open_stream(path).read_all().to_pylist()


def facts(events):
    return [json.loads(event["text"]) for event in events if event["kind"] == "fact"]


def span(event):
    """Start and length of a row on a timeline, ns; length None: it is a moment."""
    if event["kind"] == "fact":
        fact = json.loads(event["text"])
        length = fact.get("duration") if fact["fact"] in ("gap", "hold") else None
        return event["ts"] - (length or 0), length
    return event["ts"], event["duration"]


def title(event):
    if event["kind"] == "fact":
        return json.loads(event["text"])["fact"]
    return event["api"] + (" begins" if event["kind"] == "begin" else "")


def live_device_bytes(events, pid):
    """Bytes of `cudaMalloc` after each row that changes them, as (end of the call, bytes)."""
    blocks, curve = {}, []
    for event in events:
        if event["pid"] != pid:
            continue
        before = sum(blocks.values())
        if event["api"] == "cudaMalloc" and event["result"] == 0:
            blocks[event["address"]] = event["size"]
        elif event["api"] == "cudaFree" and event["kind"] == "begin":
            blocks.pop(event["address"], None)
        elif event["kind"] == "fact" and json.loads(event["text"])["fact"] in ("exit", "exec"):
            blocks.clear()
        if sum(blocks.values()) != before:
            curve.append((event["ts"] + (event["duration"] or 0), sum(blocks.values())))
    return curve


def check_nesting(slices):
    """Slices of one track, as (start, end): each lies within another one or beside it."""
    stack = []
    for start, end in sorted(slices, key=lambda slice: (slice[0], -slice[1])):
        while stack and stack[-1] <= start:
            stack.pop()
        assert not stack or end <= stack[-1], (start, end, stack)
        stack.append(end)
