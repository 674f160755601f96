//! JSON Lines, CSV and Parquet, read by pyarrow, Polars, DuckDB and Python's JSON.

use crate::{directory, everything, exported, python, recordings, script};

#[test]
fn tables_hold_every_row_and_value() {
    let directory = directory();
    let mut all = recordings();
    all.push(everything(&directory));
    for recording in all {
        let [jsonl, csv, parquet] =
            ["jsonl", "csv", "parquet"].map(|format| exported(&directory, format, &recording, &[]));
        let rows = script(&python(), "table.py", &[&recording, &jsonl, &csv, &parquet]);
        assert!(rows.trim().parse::<u32>().expect("a number") > 0);
    }
}
