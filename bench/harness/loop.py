"""Part A: what an agent loop costs per turn against a scripted model that answers at once."""

import json
import os
import urllib.request
from dataclasses import dataclass

from . import peers, process, results
from .peers import Pace
from .settings import RELEASE


@dataclass(frozen=True)
class Case:
    turns: int
    conc: int
    stream: int


# `--cases=` picks among these by position.
CASES = [
    Case(turns=50, conc=1, stream=0),
    Case(turns=10, conc=1, stream=0),
    Case(turns=200, conc=1, stream=0),
    Case(turns=50, conc=64, stream=0),
    Case(turns=50, conc=1, stream=1),
    Case(turns=10, conc=1, stream=1),
    Case(turns=200, conc=1, stream=1),
    Case(turns=50, conc=64, stream=1),
]

# By turns and concurrency: warm-up runs, then measured runs. Short runs need more samples, and
# a compiler that works while the program runs needs longer to settle.
AMOUNTS = {
    Pace.LIMIT: {(50, 1): (1, 400), (10, 1): (1, 400), (200, 1): (1, 100), (50, 64): (1, 5120)},
    Pace.FAST: {(50, 1): (1, 40), (10, 1): (1, 40), (200, 1): (1, 10), (50, 64): (1, 512)},
    Pace.JIT: {(50, 1): (10, 40), (10, 1): (100, 100), (200, 1): (10, 8), (50, 64): (10, 64)},
    Pace.SLOW: {(50, 1): (2, 3), (10, 1): (2, 8), (200, 1): (1, 1), (50, 64): (2, 64)},
}


def measure(options):
    # One CPU for client and mock removes the wake-ups across CPUs, which triple the limit's cost.
    pin = ["taskset", "-c", "0"] if os.environ.get("PERF_PIN") else []
    chosen = peers.present(peers.loops(), options.only)
    cases = [CASES[i] for i in options.cases] if options.cases else CASES
    port = process.free_port()
    with process.server([*pin, f"{RELEASE}/mock", str(port)], port):
        for case in cases:
            for _ in range(1 if options.quick else 2):
                for peer in chosen:
                    if peer.streams or not case.stream:
                        measure_peer(peer, case, port, pin)


def measure_peer(peer, case, port, pin):
    warm, runs = AMOUNTS[peer.pace][case.turns, case.conc]
    take_stats(port)
    outcome = process.run(
        [*pin, *peer.command],
        {
            "PERF_URL": f"http://127.0.0.1:{port}/n/{case.turns}/v1",
            "PERF_N": str(case.turns),
            "PERF_RUNS": str(runs),
            "PERF_CONC": str(case.conc),
            "PERF_WARM": str(warm),
            "PERF_STREAM": str(case.stream),
        },
    )
    stats = take_stats(port)
    # A peer counts only if it made every request and every tool result was right.
    want = (runs + warm) * (case.turns + 1)
    ok = bool(outcome.report) and stats["requests"] == want and stats["bad"] == 0
    record = results.save(
        part="A",
        peer=peer.name,
        pin=bool(pin),
        n=case.turns,
        conc=case.conc,
        stream=case.stream,
        ok=ok,
        stats=stats,
        want=want,
        rss_mb=round(outcome.rss_mb, 1),
        proc_cpu=outcome.cpu_s,
        **figures(outcome, runs, case.turns),
    )
    show(record)


def take_stats(port):
    """What the mock has seen since it was last asked."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/stats") as response:
        return json.load(response)


def figures(outcome, runs, turns):
    if not outcome.report:
        return {"err": outcome.error}
    wall_s, cpu_s = outcome.report["wall"], outcome.report["cpu"]
    requests = runs * (turns + 1)
    return {
        "cpu_us_turn": cpu_s * 1e6 / requests,
        "wall_us_turn": wall_s * 1e6 / requests,
        "runs_s": runs / wall_s,
    }


def show(record):
    line = (
        f"A n={record['n']} c={record['conc']} s={record['stream']} {record['peer']:22}"
        f" ok={record['ok']}"
        f" cpu/turn={record.get('cpu_us_turn', -1):9.1f}us"
        f" wall/turn={record.get('wall_us_turn', -1):9.1f}us"
        f" runs/s={record.get('runs_s', -1):8.2f}"
        f" rss={record['rss_mb']:6.1f}MB"
    )
    if not record["ok"]:
        line += f" {record['stats']} (wanted {record['want']} requests)"
    print(line, record.get("err", "")[-200:], flush=True)
