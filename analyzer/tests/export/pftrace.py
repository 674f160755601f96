"""Reads a Perfetto trace with the whole definition of the format: `pftrace.py RECORDING TRACE`."""

import sys
from collections import Counter, defaultdict

import truth
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

recording, path = sys.argv[1:]
events = truth.rows(recording)
trace = proto.Trace.FromString(open(path, "rb").read())


def unknown_fields(message):
    known = message.__class__()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return known.ByteSize() != message.ByteSize()


MONOTONIC = proto.BUILTIN_CLOCK_MONOTONIC
NEEDED = proto.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
tracks, interned, clock = {}, defaultdict(dict), None
packets, counters, snapshots = [], defaultdict(list), []
for packet in trace.packet:
    assert not unknown_fields(packet)
    assert packet.trusted_packet_sequence_id
    if packet.sequence_flags & proto.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
        interned.clear()
        clock = packet.trace_packet_defaults.timestamp_clock_id
        assert clock == MONOTONIC == packet.clock_snapshot.primary_trace_clock
    if packet.HasField("clock_snapshot"):
        snapshots.append({reading.clock_id: reading.timestamp for reading in packet.clock_snapshot.clocks})
    if packet.HasField("track_descriptor"):
        tracks[packet.track_descriptor.uuid] = packet.track_descriptor
    data = packet.interned_data
    for field in ("event_categories", "event_names", "debug_annotation_names"):
        interned[field].update((entry.iid, entry.name) for entry in getattr(data, field))
    interned["strings"].update((entry.iid, entry.str.decode()) for entry in data.debug_annotation_string_values)
    if not packet.HasField("track_event"):
        continue
    event = packet.track_event
    assert event.track_uuid in tracks and packet.sequence_flags & NEEDED
    if event.type == proto.TrackEvent.TYPE_COUNTER:
        track = tracks[event.track_uuid]
        assert track.counter.unit == proto.CounterDescriptor.UNIT_SIZE_BYTES
        owner = tracks[track.parent_uuid].process.pid
        counters[owner, track.name].append((packet.timestamp, event.counter_value))
        continue
    arguments = {}
    for annotation in event.debug_annotations:
        kind = annotation.WhichOneof("value")
        value = getattr(annotation, kind)
        arguments[interned["debug_annotation_names"][annotation.name_iid]] = (
            interned["strings"][value] if kind == "string_value_iid" else value
        )
    name = interned["event_names"][event.name_iid] if event.name_iid else None
    packets.append((packet.timestamp, event.type, event.track_uuid, name, arguments))

# As trace_processor does: by time, and in the order of the file where that is the same. What ends
# is what began last on its track.
found, stacks = [], defaultdict(list)
for timestamp, kind, track, name, arguments in sorted(packets, key=lambda packet: packet[0]):
    if kind == proto.TrackEvent.TYPE_SLICE_BEGIN:
        stacks[track].append((name, timestamp, arguments))
    elif kind == proto.TrackEvent.TYPE_SLICE_END:
        began, start, arguments = stacks[track].pop()
        found.append((track, began, start, timestamp - start, arguments))
    else:
        assert kind == proto.TrackEvent.TYPE_INSTANT
        found.append((track, name, timestamp, None, arguments))
assert not any(stacks.values())


def owner(track):
    """Process and thread of a track; lanes and facts are of their process alone."""
    descriptor = tracks[track]
    if descriptor.HasField("thread"):
        return descriptor.thread.pid, descriptor.thread.tid
    parent = tracks[descriptor.parent_uuid]
    return parent.process.pid, None


by_seq = {event["seq"]: event for event in events}
assert Counter(arguments["seq"] for *_, arguments in found) == Counter(by_seq.keys())
for track, name, start, length, arguments in found:
    event = by_seq[arguments["seq"]]
    assert (name, start, length) == (truth.title(event), *truth.span(event)), (event, start, length)
    pid, tid = owner(track)
    assert pid == event["pid"] and tid in (event["tid"], None)
    for column in ("size", "address", "result", "device", "api", "kernel", "flags", "allocated"):
        assert arguments.get(column) == event[column], (column, event, arguments)

facts = truth.facts(events)
clocks = [
    {MONOTONIC: fact["monotonic"], proto.BUILTIN_CLOCK_BOOTTIME: fact["boottime"],
     proto.BUILTIN_CLOCK_REALTIME: fact["realtime"]}
    for fact in facts
    if fact["fact"] == "clock"
]
assert snapshots == clocks[:1] + clocks
named = {descriptor.process.pid: descriptor.process.process_name for descriptor in tracks.values() if descriptor.HasField("process")}
for fact in facts:
    if fact["fact"] == "process":
        assert fact["pid"] in named
titles = {fact["pid"]: fact["title"] for fact in facts if fact["fact"] == "process"}
assert titles.items() <= named.items(), (titles, named)

for device in {event["device"] for event in events if event["allocated"] is not None}:
    for what in ("allocated", "reserved"):
        for pid in titles:
            wanted = [
                (sum(filter(None, (event["ts"], event["duration"]))), event[what])
                for event in events
                if event[what] is not None and (event["pid"], event["device"]) == (pid, device)
            ]
            assert counters.get((pid, f"PyTorch {what} bytes, device {device}"), []) == wanted
if {event["api"] for event in events if event["api"] and "lloc" in event["api"]} <= {"cudaMalloc"}:
    for pid in titles:
        wanted = truth.live_device_bytes(events, pid)
        # What device a block is on may come out later: it moves from one curve to another.
        now, totals = {}, {}
        changes = [
            (*change, name)
            for (owner_pid, name), curve in counters.items()
            if owner_pid == pid and name.startswith("live bytes, device ")
            for change in curve
        ]
        for moment, bytes, name in sorted(changes):
            now[name] = bytes
            totals[moment] = sum(now.values())
        found, last = [], 0
        for moment, total in totals.items():
            if total != last:
                found.append((moment, total))
            last = total
        assert found == wanted, (pid, found, wanted)
print(len(by_seq), len(tracks))
