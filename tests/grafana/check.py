"""Reads a dashboard into the types of Grafana's own library and prints what comes back out.

What the types do not know is not there any more, and what has another type is an error. The
library's types are generated from Grafana's schema.
"""

import json
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

with open(sys.argv[1], encoding="utf-8") as file:
    dashboard = Dashboard.from_json(json.load(file))
print(JSONEncoder().encode(dashboard))
