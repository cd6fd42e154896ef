"""The part B contract: prints {"ns"}, the CPU per call from JSON text to result, best of seven."""

import asyncio
import json
import sys
import time

SIZE = sys.argv[1] if len(sys.argv) > 1 else "small"

SMALL = '{"a":41,"b":1}'
MEDIUM = json.dumps(
    {
        "path": "src/main.rs",
        "edits": [
            {"line": i, "text": f"let value_{i} = compute({i});", "op": "replace"}
            for i in range(10)
        ],
        "dry_run": False,
        "tags": list("abcde"),
        "meta": {"author": "agent", "priority": 3},
    }
)

# The call's arguments, the tool it names, and what its result must hold.
TEXT = SMALL if SIZE == "small" else MEDIUM
NAME = "add" if SIZE == "small" else "apply"
EXPECTED = "42" if SIZE == "small" else "10"

WARM = 50
ROUNDS = 7


def bench_sync(call, iters=400):
    """Measures a blocking function."""
    result = call()
    assert EXPECTED in str(result), result
    for _ in range(WARM):
        call()
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time_ns()
        for _ in range(iters):
            call()
        best = min(best, (time.process_time_ns() - start) / iters)
    print(json.dumps({"ns": round(best), "iters": iters}))


def bench_async(call, iters=400):
    """Measures an async function, on one event loop throughout."""
    asyncio.run(_bench_async(call, iters))


async def _bench_async(call, iters):
    result = await call()
    assert EXPECTED in str(result), result
    for _ in range(WARM):
        await call()
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time_ns()
        for _ in range(iters):
            await call()
        best = min(best, (time.process_time_ns() - start) / iters)
    print(json.dumps({"ns": round(best), "iters": iters}))
