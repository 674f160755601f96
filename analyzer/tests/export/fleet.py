"""Asks a fleet's Parquet files a question: `fleet.py duckdb|spark DIRECTORY QUERY`; rows as JSON."""

import json
import sys

engine, directory, query = sys.argv[1:]
text = open(query).read()
if engine == "duckdb":
    import duckdb

    duckdb.sql(
        "CREATE VIEW events AS SELECT * FROM "
        f"read_parquet('{directory}/*/*/*.parquet', hive_partitioning = true)"
    )
    answer = duckdb.sql(text)
    rows = [dict(zip(answer.columns, row)) for row in answer.fetchall()]
else:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    spark.read.parquet(directory).createOrReplaceTempView("events")
    rows = [row.asDict() for row in spark.sql(text).collect()]
print("ANSWER", json.dumps(rows, default=float))
