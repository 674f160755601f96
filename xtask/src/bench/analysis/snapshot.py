"""Makes a PyTorch memory snapshot: 200 segments, 25,600 blocks, a million trace events.

Argument: the file."""

import pickle
import random
import sys

SEGMENT, BLOCK = 20 << 20, (20 << 20) // 128
chance = random.Random(1)
frames = [
    [{"filename": f"/app/module_{each % 40}.py", "line": line, "name": f"forward_{each}"} for line in range(8)]
    for each in range(500)
]
segments, addresses = [], []
for number in range(200):
    base = 0x7F00_0000_0000 + number * SEGMENT
    blocks = []
    for place in range(128):
        is_live = chance.random() < 0.6
        blocks.append({
            "address": base + place * BLOCK,
            "size": BLOCK,
            "requested_size": BLOCK - 64,
            "state": "active_allocated" if is_live else "inactive",
            "frames": chance.choice(frames),
        })
        addresses.append(base + place * BLOCK)
    live = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    segments.append({
        "device": 0, "address": base, "total_size": SEGMENT, "allocated_size": live,
        "active_size": live, "requested_size": live, "stream": 0, "segment_type": "large",
        "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks,
    })
trace = [
    {
        "action": "alloc" if number % 2 == 0 else "free_completed",
        "addr": addresses[number // 2 % len(addresses)], "size": BLOCK, "stream": 0,
        "time_us": number, "frames": frames[number % 500],
    }
    for number in range(1_000_000)
]
snapshot = {"segments": segments, "device_traces": [trace], "allocator_settings": {}}
with open(sys.argv[1], "wb") as file:
    pickle.dump(snapshot, file)
