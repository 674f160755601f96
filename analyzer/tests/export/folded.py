"""Sums folded stacks as flame graph tools do: `folded.py RECORDING FOLDED MOMENT`."""

import json
import re
import sys
from collections import Counter

import truth

recording, folded, moment = sys.argv[1], sys.argv[2], int(sys.argv[3])
# The pattern of flamegraph.pl and of inferno: a stack, one blank, a number.
line_pattern = re.compile(r"^(.*) (\d+)$")
found = Counter()
for line in open(folded):
    stack, bytes = line_pattern.match(line.rstrip("\n")).groups()
    process, device, kind, caller, size = stack.split(";")
    assert re.fullmatch(r"up to \d+ bytes", size) and all((process, device, kind, caller))
    found[int(process.rsplit(" ", 1)[1]), kind, caller] += int(bytes)

callers = {fact["id"]: fact["module"] for fact in truth.facts(truth.rows(recording)) if fact["fact"] == "caller"}
blocks, arrays, vmm = {}, {}, {}
# Physical memory that is mapped stays, whether its handle was released or not.
mapped, physical = {}, {}
for event in truth.rows(recording):
    end = event["ts"] + (event["duration"] or 0)
    if event["kind"] == "fact" and json.loads(event["text"])["fact"] == "exit" and end <= moment:
        for holders in (blocks, arrays, vmm, mapped):
            for key in [key for key in holders if key[0] == event["pid"]]:
                del holders[key]
    if event["kind"] not in ("call", "begin") or end > moment:
        continue
    pid, api = event["pid"], event["api"]
    taken = (event["size"], callers.get(event["caller"]) or "[unknown]")
    if event["kind"] == "call" and event["result"] == 0:
        if api in ("cudaMalloc", "cuMemAlloc_v2"):
            blocks[pid, event["address"]] = ("device", *taken)
        elif api in ("cudaMallocAsync", "cudaMallocFromPoolAsync"):
            blocks[pid, event["address"]] = ("pool", *taken)
        elif api == "cudaMallocArray":
            arrays[pid, event["handle"]] = ("device", *taken)
        elif api == "cuMemCreate":
            vmm[pid, event["handle"]] = physical[pid, event["handle"]] = ("vmm", *taken)
        elif api == "cuMemMap":
            mapped[pid, event["address"]] = event["handle"]
    if event["kind"] == "begin":
        if api in ("cudaFree", "cuMemFree_v2", "cudaFreeAsync"):
            blocks.pop((pid, event["address"]), None)
        elif api == "cudaFreeArray":
            arrays.pop((pid, event["handle"]), None)
        elif api == "cuMemUnmap":
            mapped.pop((pid, event["address"]), None)
        elif api == "cuMemRelease":
            vmm.pop((pid, event["handle"]), None)
for (pid, _), handle in mapped.items():
    vmm[pid, handle] = physical[pid, handle]
wanted = Counter()
for holders in (blocks, arrays, vmm):
    for (pid, _), (kind, size, caller) in holders.items():
        wanted[pid, kind, caller] += size
assert found == wanted, (found - wanted, wanted - found)
print(sum(found.values()))
