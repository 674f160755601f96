"""Parses metrics with Prometheus' own parsers, and prints the series as JSON.

    pip install -r tests/prometheus/requirements.txt
    python tests/prometheus/parse.py openmetrics|prometheus FILE

Prints one object for each series, in a list: `name`, `labels`, `value`, and the `type` of its
family. Fails, with the parser's message, on what is not valid; and, as Prometheus itself would, on
a series that is there twice.
"""

import json
import sys

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client import parser as prometheus

PARSERS = {
    "openmetrics": openmetrics.text_string_to_metric_families,
    "prometheus": prometheus.text_string_to_metric_families,
}


def main(kind, path):
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    series, seen = [], set()
    for family in PARSERS[kind](text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            if key in seen:
                sys.exit(f"twice: {key}")
            seen.add(key)
            series.append(
                {
                    "name": sample.name,
                    "labels": sample.labels,
                    "value": sample.value,
                    "type": family.type,
                }
            )
    json.dump(series, sys.stdout)


main(*sys.argv[1:])
