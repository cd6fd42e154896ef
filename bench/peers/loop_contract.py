"""The part A contract: does the warm-up and the measured runs, prints {"wall", "cpu", "runs"}."""

import asyncio
import json
import os
import resource
import time
from concurrent.futures import ThreadPoolExecutor

URL = os.environ.get("PERF_URL", "")
RUNS = int(os.environ.get("PERF_RUNS", "1"))
CONC = int(os.environ.get("PERF_CONC", "1"))
WARM = int(os.environ.get("PERF_WARM", "1"))
STREAM = os.environ.get("PERF_STREAM") == "1"

# For the peers that talk to a model directly and have no way of describing a function.
ADD_TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two integers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}

os.environ.setdefault("OPENAI_API_KEY", "x")


def drive(one):
    """Measures an async function that makes one run and returns its final text."""
    asyncio.run(_drive(one))


async def _drive(one):
    async def checked():
        text = await one()
        assert text == "Done.", text

    for _ in range(WARM):
        await checked()
    wall_start, cpu_start = time.perf_counter(), _cpu_s()
    left = iter(range(RUNS))

    async def worker():
        for _ in left:
            await checked()

    await asyncio.gather(*[worker() for _ in range(CONC)])
    _report(wall_start, cpu_start)


def drive_sync(one):
    """Measures a blocking function, with a thread for each run in flight."""

    def checked(_=0):
        text = one()
        assert text == "Done.", text

    for _ in range(WARM):
        checked()
    wall_start, cpu_start = time.perf_counter(), _cpu_s()
    if CONC == 1:
        for _ in range(RUNS):
            checked()
    else:
        with ThreadPoolExecutor(CONC) as executor:
            list(executor.map(checked, range(RUNS)))
    _report(wall_start, cpu_start)


def _cpu_s():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _report(wall_start, cpu_start):
    wall_s = time.perf_counter() - wall_start
    cpu_s = _cpu_s() - cpu_start
    print(json.dumps({"wall": wall_s, "cpu": cpu_s, "runs": RUNS}), flush=True)
