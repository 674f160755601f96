"""Tests of what reads recordings without cudasnoop, and of the checks that stand on it."""

import base64
import json
import sys
import tempfile
import unittest
import zlib
from collections import namedtuple
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

from checks import families, torch_memory, twogpus, vllm, vllm_sleep
from gpu_check import arrow
from gpu_check.events import CAPTURED, Events, blocks_at, live_physical_bytes, mapped_at, nodes, ranges, threads, work_run
from gpu_check.rows import FAILED, UNEQUAL, Table

# By pyarrow: columns of numbers, texts and names, with nulls; two batches, compressed with zstd.
STREAM = """
eNqdVV9IU1EY/87u7rquK4iIzJw6rWhqpYhY1EPT8g+SEdWDYMSmrfAPOd0kKSF7MCSiDCUKCgYqUgpKQ1IImZqmiOBTSGjoQ9CDD/YQSFa3c8
49d92d3LA+OP7OOd/3/c73705FURQ/AogDImaQwQQiSHiHBRnBiGHll6IQNOFVhm03Mfbh5cQrFy+ia8M82EEkPBZ2Bwx97lYf2cvYpk+1M/B2
hLvR46ttvAHwHb8n4fNSFNtmt7elAbMGqQ0gG5AcEnDkJtiDsyAnNSfV38bF5K295SZ7CdtK2ENSVchBPS0hHsLJeMQE/DcfL6uOS8DL5anF9h
K9lZhuQlFzMIJaQzU24GIDGhvP53U30SwlfEtyJTFhOiWIMYHZyThGtVMyZQSDkdaoDP6IPqY46pOK0RjyIf07wGprAL2YaE1MrCYCRJYUhjaG
+3U69BcvqLFisY/m/LTJLmBjBxCvbuP1+vjHADUtV10VroaGxhqyK2l207bRepC5jVgPwUjr6kD6t8PzJwFq+QtR8o+Nkv9BLV4Ij9/BUIuvkt
N7uPp1cbxdnH6E85/j+Nc4/RbDdK0/KJxP+4743gq63kU78/ZCBHuLvp+Wfjp0iHaPiAGca8iJdPbUDsUAbmUYH70XkkLUkezD38OzYttWwGEA
h1mm7+w4fwY2UDvxQsQ4YMc42NDE6e/j7oZ/AHKU78Fly7jmqvFlHLZNv/yHOffvcs7t/znn5xie5+61cxI318Cdsxn6GSYyHGO4j+Ey57/M8W
9xeu3cwbCd1SGZm3M757fbs32X9trvDOmj0wGfEVTPyHLu00YTbmDPgbOei0rp+5LZ4pkz705PF00VTjqCw28WVusCy4Oj5S/Ke5cGAvOXs7rL
Dl0ygIB075K5sBeTgUIIblsTd35vEaBaNN4jU9f+SpM6jQxCn4fKJ2aG4vbr7/0VdHARJJudiMs/FMfcHIK0do2vT6/v6xegyGy1d5UuIs/wt4
mCodj6wQ/bH0cKmq+Pe1fGfdmFX6w3j6ZYqsoz+3vyxFNP0maH10s3F36knuxcnXwY6N74dGTd5OldSQh0PAtu5NW/tV4Rcxb3vr5fmT50YnA+
q+nCcfF51sBMpys/d+qB9c7Y5LFHbeR9Z4yuHk6JJNLaiqDqK0oM/b8g+BsqyhZ8
"""
COLUMNS = (
    "seq", "ts", "duration", "pid", "tid", "kind", "api", "layer", "parent", "result", "device", "source_device", "location",
    "location_id", "address", "source", "size", "offset", "count", "copy_kind", "stream", "grid_x", "grid_y", "grid_z",
    "block_x", "block_y", "block_z", "shared_memory", "handle", "related", "option", "kernel", "caller", "flags", "text",
)
Row = namedtuple("Row", COLUMNS, defaults=[None] * len(COLUMNS))
GRID = {"grid_x": 2, "grid_y": 1, "grid_z": 1, "block_x": 32, "block_y": 1, "block_z": 1}


class Recorder:
    """Rows as a recording has them, each at the next moment."""

    def __init__(self, pid=7):
        self.pid, self.rows = pid, []

    def call(self, api, result=0, **values):
        moment = len(self.rows)
        layer = "runtime" if api.startswith("cuda") else "driver"
        values = {"pid": self.pid, "tid": self.pid, "flags": 0, **values}
        self.rows.append(Row(seq=moment, ts=moment, duration=0, kind="call", api=api, layer=layer, result=result, **values))
        return moment

    def fact(self, fact, **values):
        text = json.dumps({"fact": fact, **values})
        self.rows.append(Row(seq=len(self.rows), ts=len(self.rows), pid=0, tid=0, kind="fact", flags=0, text=text))

    def events(self):
        return Events(self.rows)


def problems(table):
    return [(row.claim, row.cudasnoop, row.truth, row.note) for row in table.rows if row.equal in (UNEQUAL, FAILED)]


class Streams(unittest.TestCase):
    def test_numbers_names_texts_and_nulls_are_those_of_pyarrow(self):
        rows = self.read(zlib.decompress(base64.b64decode(STREAM)))
        self.assertEqual(len(rows), 43)
        self.assertEqual(rows[0], (0, "cudaMalloc", -5, 0, None, None))
        self.assertEqual(rows[1], (1, None, None, 2, None, 'a "fact", é'))
        self.assertEqual(rows[2], (2**64 - 1, "cudaFree", 2**62, -1, None, ""))
        self.assertEqual(rows[4], (4, "cudaFree", 7, None, 200, "x" * 60))
        self.assertEqual(rows[42].seq, 42)

    def test_a_stream_that_was_cut_is_an_error(self):
        whole = zlib.decompress(base64.b64decode(STREAM))
        for length in (len(whole) - 8, 4, 0):
            with self.assertRaises(arrow.NotReadable):
                self.read(whole[:length])

    def read(self, data):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "stream"
            path.write_bytes(data)
            return arrow.read(path)


class Memory(unittest.TestCase):
    def test_a_mapping_lives_until_it_is_unmapped_also_by_a_larger_range(self):
        recorder = Recorder()
        recorder.call("cuMemMap", address=100, size=10)
        first = recorder.call("cuMemMap", address=110, size=10)
        second = recorder.call("cuMemMap", result=1, address=500, size=10)
        recorder.call("cuMemUnmap", address=100, size=20)
        self.assertEqual(mapped_at(recorder.rows, [-1, first, second, 9]), [{}, {100: 10, 110: 10}, {100: 10, 110: 10}, {}])

    def test_mapped_memory_joins_within_a_reservation(self):
        mapped = {100: 10, 110: 10, 130: 5, 120: 10}
        self.assertEqual(ranges(mapped, {100, 120}), [[100, 20], [120, 15]])

    def test_failed_allocations_and_frees_change_nothing(self):
        recorder = Recorder()
        recorder.call("cudaMalloc", address=1, size=10)
        recorder.call("cudaMalloc", result=2, size=99)
        taken = recorder.call("cudaFree", result=1, address=1)
        recorder.call("cudaFree", address=1)
        self.assertEqual(blocks_at(recorder.rows, [taken, 9]), [{1: 10}, {}])

    def test_physical_memory_lives_while_a_handle_or_a_mapping_holds_it(self):
        recorder = Recorder()
        recorder.call("cuMemCreate", handle=1, size=10, location=1)
        recorder.call("cuMemCreate", handle=2, size=1000, location=3)
        recorder.call("cuMemCreate", result=2, size=1000, location=1)
        recorder.call("cuMemMap", address=64, size=10, handle=1)
        recorder.call("cuMemRelease", handle=1)
        self.assertEqual(live_physical_bytes(recorder.rows), 10)
        recorder.call("cuMemUnmap", address=64, size=10)
        self.assertEqual(live_physical_bytes(recorder.rows), 0)
        recorder.call("cuMemCreate", handle=1, size=7, location=1)
        recorder.call("cuMemRetainAllocationHandle", handle=1, address=64)
        recorder.call("cuMemRelease", handle=1)
        self.assertEqual(live_physical_bytes(recorder.rows), 7)
        self.assertEqual(live_physical_bytes(recorder.rows, location=3), 1000)


class Families(unittest.TestCase):
    def test_captured_launches_run_once_for_each_graph_launch(self):
        recorder = Recorder()
        launch = {"result": None, **GRID}
        recorder.call("cuLaunchKernel", **launch)
        recorder.call("cuLaunchKernel", **{**launch, "flags": CAPTURED})
        recorder.call("cudaLaunchKernel", **launch)
        recorder.call("cudaStreamEndCapture", handle=5)
        recorder.call("cudaGraphInstantiate", handle=6, related=5)
        for _ in range(3):
            recorder.call("cudaGraphLaunch", handle=6)
        # A spoiled capture.
        recorder.call("cuLaunchKernel", **{**launch, "flags": CAPTURED})
        recorder.call("cuStreamEndCapture", result=901)
        self.assertEqual(work_run(recorder.rows, threads), 64 * 5)
        recorder.call("cudaGraphGetNodes", handle=5, count=1)
        recorder.call("cudaGraphGetNodes", handle=77, count=9)
        self.assertEqual(nodes(recorder.rows), [[1, 1]])

    def story(self, made, **more):
        return {
            "pid": 7, "window": [0, 99], "made": made, "surprises": [], "absent": [], "features": [], "broken": [], **more,
        }

    def compare(self, recorder, story):
        with tempfile.TemporaryDirectory() as folder:
            bench = type("Bench", (), {"table": Table(), "keep": lambda self, name, text: Path(folder, name).write_text(text)})()
            families.compare_process(bench, "s", recorder.events(), story)
        return problems(bench.table)

    MADE = [
        {"api": "cudaMalloc", "result": 0, "address": 64, "size": 10},
        {"api": "cudaMalloc", "result": 2, "address": None, "size": 99},
        {"api": "cuLaunchKernel", "result": 0, "stream": 3, "captured": True, **GRID},
        {"api": "cudaEventRecord", "result": 0, "recorded": False},
    ]

    def recorded(self):
        recorder = Recorder()
        recorder.fact("caller", id=1, module="/x/libcudart.so.13")
        recorder.call("cudaMalloc", address=64, size=10)
        # Inside it, and by the runtime itself: not the program's.
        recorder.call("cuDevicePrimaryCtxRetain", parent="cudaMalloc")
        recorder.call("cuMemAlloc_v2", caller=1, address=1, size=1)
        recorder.call("cudaMalloc", result=2, size=99)
        return recorder

    def test_calls_that_are_equal_in_all_that_was_told(self):
        recorder = self.recorded()
        recorder.call("cuLaunchKernel", result=None, stream=3, flags=CAPTURED, **GRID)
        self.assertEqual(self.compare(recorder, self.story(self.MADE)), [])

    def test_each_difference_has_a_row(self):
        recorder = self.recorded()
        recorder.call("cuLaunchKernel", result=None, stream=4, **GRID)
        recorder.call("cudaEventRecord")
        found = self.compare(recorder, self.story(self.MADE))
        self.assertEqual(len(found), 2, found)
        self.assertEqual(found[0][1:3], ({"stream": 4, "captured": False}, {"stream": 3, "captured": True}))
        self.assertEqual(found[1][:3], ("calls flagged as captured, in all", 0, 1))

    def test_what_did_not_work_is_a_failed_row(self):
        story = self.story([], surprises=[{"api": "cuMemMap", "result": 1, "expected": [0], "number": 3}],
                           broken=[{"family": "vmm", "why": "none"}],
                           features=[{"name": "a", "supported": True, "result": 801}, {"name": "b", "supported": False, "result": 801}])
        self.assertEqual(len(self.compare(Recorder(), story)), 3)


class Checks(unittest.TestCase):
    """The checks of scenarios that need PyTorch, on rows as they should be."""

    def test_expandable_segments(self):
        recorder, table = Recorder(), Table()
        recorder.fact("caller", id=1, module="/x/libc10_cuda.so")
        recorder.call("cuMemAddressReserve", address=1000, size=500)
        recorder.call("cuMemMap", address=1000, size=20)
        recorder.call("cuMemMap", address=1020, size=20)
        first = recorder.call("cudaMalloc", address=5000, size=7, caller=1)
        recorder.call("cudaMalloc", address=6000, size=7)
        recorder.call("cuMemUnmap", address=1000, size=20)
        truth = {"pid": 7, "checkpoints": [
            {"at": first, "reserved": 47, "segments": [[1000, 40], [5000, 7]]},
            {"at": 90, "reserved": 27, "segments": [[1020, 20], [5000, 7]]},
        ]}
        torch_memory.compare_mappings(table, "s", recorder.events(), truth)
        self.assertEqual(problems(table), [])
        truth["checkpoints"][1]["reserved"] = 28
        torch_memory.compare_mappings(table, "s", recorder.events(), truth)
        self.assertEqual(len(problems(table)), 1)

    def test_relations_of_an_engines_counts(self):
        recorder, table = Recorder(), Table()
        recorder.fact("kernel", id=1, name="gemm", module="/x/libtorch_cuda.so", handle="0x1")
        recorder.fact("kernel", id=2, name=None, module="/x/libcublas.so.13", handle="0x2")
        recorder.call("cudaLaunchKernel", result=None, kernel=1)
        recorder.call("cuLaunchKernel", result=None, kernel=2)
        recorder.call("cudaStreamBeginCapture")
        recorder.call("cudaStreamEndCapture")
        recorder.call("cudaGraphInstantiate")
        recorder.call("cudaMemcpyAsync", copy_kind=1)
        for api in ("cudaLaunchKernel", "cuLaunchKernel"):
            recorder.fact("account", api=api, made=1, folded=2, reported=1, lost_ring=0, lost_pairing=0, abandoned=0, in_flight=0)
        vllm.compare_with_count(table, "s", recorder.events())
        vllm.compare_relations(table, "s", recorder.events())
        self.assertEqual(problems(table), [])
        by_claim = {row.claim: row for row in table.rows}
        self.assertEqual(by_claim["entries of cuLaunchKernel; an earlier count"].cudasnoop, 3)
        self.assertIn("libcublas.so.13", by_claim["launches by driver handle with a kernel's name, and all of them"].note)

    def test_sleep_and_wake(self):
        recorder, table = Recorder(), Table()
        recorder.fact("caller", id=1, module="/x/vllm/cumem_allocator.abi3.so")
        own = {"caller": 1}

        def take():
            recorder.call("cuMemCreate", result=801, size=10, location=1, **own)
            recorder.call("cuMemCreate", handle=5, size=10, location=1, **own)
            return recorder.call("cuMemMap", address=64, size=10, handle=5, **own)

        moments = [{"state": "awake", "at": take()}]
        recorder.call("cudaMemcpy", size=4)
        recorder.call("cuMemUnmap", address=64, size=10, **own)
        moments.append({"state": "asleep", "at": recorder.call("cuMemRelease", handle=5, **own)})
        recorder.call("cudaMemcpy", size=4)
        moments.append({"state": "awake again", "at": take()})
        moments = [{"blocks": 1, "bytes": 10, "weights": [1, 4], "free": 5, "total": 20, "reserved": 0, **moment} for moment in moments]
        events = recorder.events()
        vllm_sleep.compare_moments(table, "s", events, events.calls(7), moments)
        vllm_sleep.compare_changes(table, "s", events.calls(7), moments)
        self.assertEqual(problems(table), [])
        self.assertGreater(len(table.rows), 10)

    def test_a_rank_on_its_own_device(self):
        recorder, table = Recorder(), Table()
        recorder.fact("caller", id=1, module="/x/libc10_cuda.so")
        recorder.fact("caller", id=2, module="/x/libnccl.so.2")
        recorder.fact("device", pid=7, ordinal=0, uuid="GPU-b", pci_bus_id=None)
        recorder.fact("device", pid=7, ordinal=1, uuid="GPU-a", pci_bus_id=None)
        recorder.fact("process", pid=7, visible_devices="1,0")
        recorder.call("cudaMalloc", address=64, size=10, device=1, caller=1)
        recorder.call("cudaMalloc", address=128, size=3, device=1)
        recorder.call("c10::reportMemoryUsageToProfiler", result=None, device=1)
        recorder.call("cuMemCreate", handle=1, size=99, location=1, location_id=1, caller=2)
        recorder.call("cuMemAlloc_v2", address=900, size=3, device=1, caller=2)
        recorder.call("cudaLaunchKernel", result=None, device=1)
        truth = {"pid": 7, "rank": 1, "uuids": ["GPU-b", "GPU-a"], "reserved": 10, "segments": 1, "blocks": [[128, 3]], "window": [0, 99]}
        twogpus.compare_devices(table, "s", recorder.events(), truth, ["GPU-b", "GPU-a"], "1,0")
        twogpus.compare_rank(table, "s", recorder.events(), truth)
        self.assertEqual(problems(table), [])

    def test_copies_and_frees_between_devices(self):
        recorder, table = Recorder(), Table()
        begin = recorder.call("cudaMemcpyAsync", size=8)
        end = recorder.call("cudaDeviceSynchronize")
        recorder.call("cudaMemcpyPeerAsync", size=4, device=1, source_device=0, address=2, source=1)
        recorder.call("cudaMalloc", address=64, size=10, device=0)
        recorder.call("cudaFree", address=64, tid=8, device=1)
        truth = {
            "pid": 7, "moves": {"window": [begin, end], "count": 1, "bytes": 8},
            "peers": {"window": [0, 9], "sizes": [4], "to": 2, "from": 1},
            "freed": {"result": 0, "tid": 8, "tid of the allocations": 7, "blocks": [[64, 10]], "taken": 3, "done": 9},
        }
        live = {3: [{"pid": 7, "device": 0, "live_bytes": 10}], 9: [{"pid": 7, "device": 0, "live_bytes": 0}]}

        class Recording:
            def report(self, window):
                return type("Report", (), {"document": {"memory": live[window[1]]}})()

        twogpus.compare_copies(table, "s", recorder.events(), truth)
        twogpus.compare_frees(table, "s", Recording(), recorder.events(), truth)
        self.assertEqual(problems(table), [])
        live[9] = live[3]
        twogpus.compare_frees(table, "s", Recording(), recorder.events(), truth)
        self.assertEqual(len(problems(table)), 1)


if __name__ == "__main__":
    unittest.main()
