"""Keeps the records: one JSON line per measurement, appended to the results file."""

import json
import os
import time

from . import settings


def save(**record):
    """Appends the record with the time and the machine's load, and returns it."""
    record["ts"] = time.strftime("%F %T")
    record["load1"] = os.getloadavg()[0]
    with open(settings.RESULTS, "a") as file:
        file.write(json.dumps(record) + "\n")
    return record


def load(paths):
    """All records of the given files."""
    records = []
    for path in paths:
        with open(path) as file:
            records += [json.loads(line) for line in file]
    return records
