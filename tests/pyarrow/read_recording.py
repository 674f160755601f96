"""Opens a recording with pyarrow and with Polars, and prints what each saw as JSON.

    pip install -r tests/pyarrow/requirements.txt
    python tests/pyarrow/read_recording.py RECORDING

Prints one object with the members `pyarrow` and `polars`, equal to each other:

    rows      how many
    columns   names, in order
    sums      of some columns of numbers; null where a column has no value
    kinds     rows by kind
    apis      rows by function, facts left out
    facts     rows by fact

Fails, with the reader's message, on a recording that one of them refuses: one that is not
complete, for instance.
"""

import collections
import json
import sys

import polars
import pyarrow.compute
import pyarrow.ipc

SUMS = ("seq", "duration", "size", "grid_x", "result", "kernel", "flags")


def count(values):
    return dict(sorted(collections.Counter(v for v in values if v is not None).items()))


def facts(texts):
    return count(json.loads(text)["fact"] for text in texts if text is not None)


def with_pyarrow(path):
    table = pyarrow.ipc.open_stream(path).read_all()
    table.validate(full=True)
    return {
        "rows": table.num_rows,
        "columns": table.column_names,
        "sums": {name: pyarrow.compute.sum(table[name]).as_py() for name in SUMS},
        "kinds": count(table["kind"].to_pylist()),
        "apis": count(table["api"].to_pylist()),
        "facts": facts(table["text"].to_pylist()),
    }


def with_polars(path):
    frame = polars.read_ipc_stream(path)

    def total(name):
        # Polars takes the sum of no values for 0, Arrow for null.
        values = frame[name].drop_nulls()
        return int(values.sum()) if len(values) else None

    return {
        "rows": frame.height,
        "columns": frame.columns,
        "sums": {name: total(name) for name in SUMS},
        "kinds": count(frame["kind"].to_list()),
        "apis": count(frame["api"].to_list()),
        "facts": facts(frame["text"].to_list()),
    }


def main():
    (path,) = sys.argv[1:]
    seen = {"pyarrow": with_pyarrow(path), "polars": with_polars(path)}
    assert seen["pyarrow"] == seen["polars"], seen
    json.dump(seen, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
