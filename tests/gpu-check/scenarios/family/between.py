"""Memory of one process that another one opens. Both run under the same recording."""

import ctypes
import json
import os
import subprocess
import sys

from .calls import ANY, Calls, pointer, to
from .pool import shared_pool
from .structures import FD, Bytes64

MIB = 1 << 20
SIZES = (2 * MIB, 6 * MIB, 32 * MIB)
OPENINGS = (
    ("cudaIpcGetMemHandle", "cudaIpcOpenMemHandle", "cudaIpcCloseMemHandle"),
    ("cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2", "cuIpcCloseMemHandle"),
)
LAZY_PEER_ACCESS = 1


def parent(calls, program, truth_path):
    """Shows blocks, and waits for the child that opens them. Returns where the child's truth is."""
    blocks, shown = [], []
    for number, size in enumerate(SIZES):
        for export, *_ in OPENINGS:
            block, handle = pointer(), (ctypes.c_ubyte * 64)()
            calls.must("cudaMalloc", to(block), size, address=block, size=size)
            calls(export, handle, block, address=block.value)
            blocks.append(block)
            shown.append({"export": export, "handle": bytes(handle).hex(), "number": number})
    # A block that is not there cannot be shown.
    calls("cudaIpcGetMemHandle", (ctypes.c_ubyte * 64)(), 0, expect=ANY, address=0)
    pool = shared_pool(calls)
    story = {"blocks": shown, "pool": pool and {key: pool[key] for key in ("descriptor", "exported")}}
    path = f"{truth_path}.child.json"
    child = subprocess.run(
        [sys.executable, program, "child", path], input=json.dumps(story), text=True, check=False, timeout=60,
        stdout=subprocess.DEVNULL, pass_fds=[pool["descriptor"]] if pool else [],
    )
    if pool:
        pool["close"]()
        os.close(pool["descriptor"])
    for block in blocks:
        calls("cudaFree", block, address=block.value)
    if child.returncode != 0:
        calls.broken.append({"family": "the other process", "why": f"it ended with {child.returncode}"})
        return None
    return path


def child(story):
    """Opens, sees that it can use, and closes what the parent showed."""
    calls = Calls()
    calls("cudaSetDevice", 0, device=0)
    for shown in story["blocks"]:
        handle, block = Bytes64.from_buffer_copy(bytes.fromhex(shown["handle"])), pointer()
        open_, close = next(rest for export, *rest in OPENINGS if export == shown["export"])
        told = {"address": block, "option": LAZY_PEER_ACCESS}
        if calls(open_, to(block), handle, LAZY_PEER_ACCESS, **told) == 0:
            calls("cudaMemset", block, 7, MIB, address=block.value, size=MIB)
            calls("cudaDeviceSynchronize")
            calls(close, block, address=block.value)
    if story["pool"]:
        open_pool(calls, story["pool"])
    return calls


def open_pool(calls, shown):
    imported, stream = pointer(), calls.stream()
    calls("cudaMemPoolImportFromShareableHandle", to(imported), shown["descriptor"], FD, 0, handle=imported, option=FD)
    if not imported.value:
        return
    for exported, open_ in zip(shown["exported"], ("cudaMemPoolImportPointer", "cuMemPoolImportPointer")):
        block, data = pointer(), Bytes64.from_buffer_copy(bytes.fromhex(exported))
        if calls(open_, to(block), imported, to(data), address=block, related=imported.value) == 0:
            calls("cudaMemsetAsync", block, 7, MIB, stream, address=block.value, size=MIB, stream=stream.value)
            calls("cudaFreeAsync", block, stream, address=block.value, stream=stream.value)
    calls("cudaStreamSynchronize", stream, stream=stream.value)
    calls("cudaMemPoolDestroy", imported, handle=imported.value)
