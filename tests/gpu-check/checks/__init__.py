"""The checks: one file for each scenario, with a `check(bench, name)` that adds rows."""
