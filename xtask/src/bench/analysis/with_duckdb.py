"""Three questions that `report` answers among others, asked of DuckDB. Argument: a Parquet file."""

import sys

import duckdb

duckdb.sql(f"CREATE VIEW events AS SELECT * FROM read_parquet('{sys.argv[1]}')")

# How sizes and durations are distributed, by function.
for column in ["size", "duration"]:
    duckdb.sql(f"""
        SELECT api, floor(log2({column})) AS power, count(*), sum({column})
        FROM events WHERE kind = 'call' AND {column} > 0
        GROUP BY ALL ORDER BY ALL
    """).fetchall()

# How PyTorch's live memory went: the least and the most in each 1/128 of the time.
duckdb.sql("""
    WITH live AS (
        SELECT ts, sum(size) OVER (ORDER BY seq) AS bytes
        FROM events WHERE family = 'torch'
    ), span AS (SELECT min(ts) AS since, max(ts) + 1 AS until FROM live)
    SELECT (ts - since) * 128 // (until - since) AS bin, min(bytes), max(bytes)
    FROM live, span GROUP BY ALL ORDER BY ALL
""").fetchall()

# How long blocks lived: each free with the last allocation at its address.
duckdb.sql("""
    WITH rows AS (
        SELECT seq, pid, address, ts, CASE
            WHEN api = 'cudaMalloc' AND result = 0 OR family = 'torch' AND size > 0 THEN ts
        END AS taken, family
        FROM events
        WHERE api = 'cudaMalloc' OR api = 'cudaFree' AND kind = 'call' OR family = 'torch'
    ), lives AS (
        SELECT family, taken, ts - lag(taken) OVER (
            PARTITION BY family, pid, address ORDER BY seq
        ) AS life
        FROM rows
    )
    SELECT family, count(*), quantile_cont(life, [0.5, 0.9, 0.99])
    FROM lives WHERE taken IS NULL AND life IS NOT NULL GROUP BY ALL
""").fetchall()
