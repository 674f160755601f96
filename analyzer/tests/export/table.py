"""Reads the tables with readers that others wrote: `table.py RECORDING JSONL CSV PARQUET_DIRECTORY`."""

import json
import sys

import duckdb
import polars
import pyarrow
import pyarrow.csv
import pyarrow.dataset
import pyarrow.json
import truth

recording, jsonl, csv, parquet = sys.argv[1:]
events = truth.rows(recording)
columns = list(events[0])
DERIVED = ["time", "kernel_name", "kernel_short", "caller_module", "process_title", "live_bytes"]
ADDRESSES = ["address", "source", "stream", "handle", "related", "option"]


def known(event):
    """An event as a reader of text sees it: without nulls, addresses as text."""
    return {
        key: hex(value) if key in ADDRESSES else value
        for key, value in event.items()
        if value is not None
    }


# JSON: as it stands, by a reader with doubles alone, by Arrow, Polars and DuckDB.
lines = [json.loads(line) for line in open(jsonl)]
assert [{key: line[key] for key in line if key in columns} for line in lines] == [
    known(event) for event in events
]
assert {key for line in lines for key in line} <= set(columns + DERIVED)
doubles = [json.loads(line, parse_int=float) for line in open(jsonl)]
assert doubles == lines, "a number has more than 53 bits"
read = pyarrow.json.read_json(
    jsonl, pyarrow.json.ReadOptions(block_size=1 << 26)
)
assert read.num_rows == len(events)
frame = polars.read_ndjson(jsonl, infer_schema_length=None)
assert frame.height == len(events)
assert frame["seq"].to_list() == [event["seq"] for event in events]

# CSV
read = pyarrow.csv.read_csv(csv, pyarrow.csv.ReadOptions(block_size=1 << 26))
assert read.column_names == columns + DERIVED, read.column_names
for number, (row, event) in enumerate(zip(read.drop(["time"]).to_pylist(), events, strict=True)):
    for column in columns:
        # pyarrow takes hexadecimal for numbers.
        got, wanted = row[column], event[column]
        assert (None if got == "" else got) == wanted, (number, column, got, wanted)
frame = polars.read_csv(csv, infer_schema_length=None)
assert frame.height == len(events)
for column in ADDRESSES:
    wanted = [event[column] for event in events]
    assert frame[column].to_list() == [None if value is None else hex(value) for value in wanted]

# Parquet: types and all values, by Arrow; counts and sums by DuckDB and Polars.
read = pyarrow.dataset.dataset(parquet, partitioning="hive").to_table()
assert read.num_rows == len(events)
expected = pyarrow.ipc.open_stream(recording).read_all().sort_by("seq")
read = read.sort_by("seq")
for column in columns:
    kept = expected[column]
    if pyarrow.types.is_dictionary(kept.type):
        kept = kept.cast(pyarrow.string())
    assert read[column].cast(kept.type).equals(kept), column
    if pyarrow.types.is_integer(kept.type) and kept.type.bit_width >= 32:
        assert read[column].type == kept.type, (column, read[column].type)
files = f"read_parquet('{parquet}/*/*/*.parquet', hive_partitioning = true)"
counts = dict(duckdb.sql(f"SELECT kind, count(*) FROM {files} GROUP BY kind").fetchall())
kinds = [event["kind"] for event in events]
assert counts == {kind: kinds.count(kind) for kind in kinds}, counts
[(total,)] = duckdb.sql(f"SELECT sum(size) FROM {files}").fetchall()
assert total == sum(event["size"] for event in events if event["size"] is not None) or total is None
frame = polars.scan_parquet(f"{parquet}/*/*/*.parquet").collect()
assert frame.height == len(events)

# What is derived, against the facts.
kernels, callers, processes = {}, {}, {}
for event, fact in ((event, json.loads(event["text"])) for event in events if event["text"]):
    if fact["fact"] == "kernel" and fact["name"]:
        kernels[fact["id"]] = fact["name"]
    if fact["fact"] == "caller":
        callers[fact["id"]] = fact["module"]
clocks = [fact for fact in truth.facts(events) if fact["fact"] == "clock"]
for row in read.to_pylist():
    fact = json.loads(row["text"]) if row["text"] else {}
    if fact.get("fact") == "process":
        processes[row["pid"]] = fact["title"], fact["command"]
    assert row["kernel_name"] == kernels.get(row["kernel"])
    assert row["caller_module"] == callers.get(row["caller"])
    assert (row["process_title"], row["process_command"]) == processes.get(row["pid"], (None, None))
    clock = min(clocks, key=lambda clock: abs(clock["monotonic"] - row["ts"]))
    realtime = row["ts"] - clock["monotonic"] + clock["realtime"]
    assert int(round(row["time"].timestamp() * 1e6)) == realtime // 1000, row["time"]
    assert str(row["date"]) == row["time"].strftime("%Y-%m-%d")
for pid in processes:
    wanted = truth.live_device_bytes(events, pid)
    memory = [row for row in read.to_pylist() if row["pid"] == pid and row["live_bytes"] is not None]
    apis = {row["api"] for row in memory if row["api"] and "lloc" in row["api"]}
    if apis <= {"cudaMalloc"} and wanted:
        assert max(row["live_bytes"] for row in memory) == max(bytes for _, bytes in wanted)
print(len(events))
