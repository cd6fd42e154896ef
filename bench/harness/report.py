"""Prints tables: a range is over repetitions, a ratio is the best value against the best limit."""

import os
import sys
from collections import defaultdict

from . import results, settings


def show(options):
    paths = options.files or [settings.RESULTS]
    absent = [path for path in paths if not os.path.exists(path)]
    if absent:
        sys.exit(f"no results in {', '.join(absent)}: run a part first, such as ./run.sh A")
    records = results.load(paths)
    for value in ("cpu_us_turn", "wall_us_turn", "runs_s", "rss_mb"):
        show_loop(records, value)
    show_dispatch(records)
    show_gateway(records)
    show_cold(records)


def show_loop(records, value):
    print(f"\n## A {value}")
    best = max if value == "runs_s" else min
    # Pinned figures are set beside pinned ones only.
    groups = grouped(records, "A", ("pin", "n", "conc", "stream", "peer"), value)
    limits = {key[:4]: best(values) for key, values in groups.items() if "limit" in key[4]}
    for key, values in sorted(groups.items(), key=lambda group: (group[0][:4], min(group[1]))):
        pin, turns, conc, stream, peer = key
        limit = limits.get(key[:4])
        ratio = f"x{best(values) / limit:.3g}" if limit else "-"
        case = f"n={turns} c={conc} s={stream}{' pinned' if pin else ''}"
        print(f"{case} | {peer} | {spread(values)} | {ratio} | reps {len(values)}")


def show_dispatch(records):
    print("\n## B ns/call")
    groups = grouped(records, "B", ("size", "peer"), "ns")
    by_size_and_best = sorted(groups.items(), key=lambda group: (group[0][0], min(group[1])))
    for (size, peer), values in by_size_and_best:
        print(f"{size} | {peer} | {spread(values)} | reps {len(values)}")


def show_gateway(records):
    print("\n## C")
    for value in ("p50_us", "p99_us", "calls_s", "gw_cpu_us"):
        groups = grouped(records, "C", ("conc", "peer"), value)
        for (conc, peer), values in sorted(groups.items()):
            print(f"{value} c={conc} | {peer} | {spread(values)}")


def show_cold(records):
    print("\n## D")
    for value in ("wall_ms", "cpu_ms", "rss_mb"):
        groups = grouped(records, "D", ("peer",), value)
        for (peer,), values in sorted(groups.items(), key=lambda group: min(group[1])):
            print(f"{value} | {peer} | {spread(values)}")


def grouped(records, part, names, value):
    """The values of the part's sound records, by what the named fields hold."""
    groups = defaultdict(list)
    for record in records:
        sound = record.get("ok", True) and "err" not in record
        if record["part"] == part and sound and record.get(value) is not None:
            groups[tuple(record.get(name, False) for name in names)].append(record[value])
    return groups


def spread(values):
    low, high = min(values), max(values)
    return f"{low:.4g}" if len(values) == 1 else f"{low:.4g}–{high:.4g}"
