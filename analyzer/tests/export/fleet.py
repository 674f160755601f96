"""Asks a fleet's Parquet files questions: `fleet.py duckdb|spark DIRECTORY QUERY...`.

Prints one line for each, with its rows as JSON.
"""

import json
import sys

engine, directory, *queries = sys.argv[1:]
if engine == "duckdb":
    import duckdb

    duckdb.sql(
        "CREATE VIEW events AS SELECT * FROM "
        f"read_parquet('{directory}/*/*/*.parquet', hive_partitioning = true)"
    )

    def ask(text):
        answer = duckdb.sql(text)
        return [dict(zip(answer.columns, row)) for row in answer.fetchall()]

else:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    spark.read.parquet(directory).createOrReplaceTempView("events")

    def ask(text):
        return [row.asDict() for row in spark.sql(text).collect()]


for query in queries:
    print("ANSWER", json.dumps(ask(open(query).read()), default=float))
