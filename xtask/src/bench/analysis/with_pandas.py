"""Three questions that `report` answers among others, asked of pandas. Argument: a Parquet file."""

import sys

import numpy
import pandas

COLUMNS = ["seq", "ts", "duration", "pid", "kind", "api", "family", "result", "address", "size"]
events = pandas.read_parquet(sys.argv[1], columns=COLUMNS)

# How sizes and durations are distributed, by function.
calls = events[events["kind"] == "call"]
for column in ["size", "duration"]:
    values = calls.loc[calls[column] > 0, ["api", column]]
    power = numpy.floor(numpy.log2(values[column].astype("float64"))).rename("power")
    values.groupby(["api", power], observed=True)[column].agg(["count", "sum"])

# How PyTorch's live memory went: the least and the most in each 1/128 of the time.
torch = events[events["family"] == "torch"].sort_values("seq")
since, until = torch["ts"].min(), torch["ts"].max() + 1
bins = ((torch["ts"] - since) * 128 // (until - since)).rename("bin")
torch["size"].cumsum().groupby(bins).agg(["min", "max"])

# How long blocks lived: each free with the last allocation at its address.
is_torch = events["family"] == "torch"
is_taken = (events["api"] == "cudaMalloc") & (events["result"] == 0) | is_torch & (events["size"] > 0)
is_freed = (events["api"] == "cudaFree") & (events["kind"] == "call") | is_torch & (events["size"] < 0)
rows = events[is_taken | is_freed].sort_values("seq")
taken = rows["ts"].where(is_taken)
key = [rows["family"].astype("str"), rows["pid"], rows["address"]]
lives = (rows["ts"] - taken.groupby(key).shift())[is_freed].dropna()
lives.groupby(rows["family"].astype("str")).quantile([0.5, 0.9, 0.99])
