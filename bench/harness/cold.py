"""Part D: what it takes to start and do nothing."""

import statistics
import time

from . import peers, process, results


def measure(options):
    for peer in peers.present(peers.cold_starts(), options.only):
        measure_peer(peer)


def measure_peer(peer):
    walls_ms, outcomes = [], []
    for _ in range(4):
        start = time.perf_counter()
        outcomes.append(process.run(peer.command))
        walls_ms.append((time.perf_counter() - start) * 1e3)
    ok = all(outcome.exit_code == 0 for outcome in outcomes)
    record = results.save(
        part="D",
        peer=peer.name,
        ok=ok,
        # The first start may have to read the disk.
        wall_ms=statistics.median(walls_ms[1:]),
        min_wall_ms=min(walls_ms),
        cpu_ms=min(outcome.cpu_s for outcome in outcomes) * 1e3,
        rss_mb=max(outcome.rss_mb for outcome in outcomes),
    )
    line = (
        f"D {peer.name:46} ok={ok} wall(med)={record['wall_ms']:8.1f}ms"
        f" min={record['min_wall_ms']:8.1f}ms cpu(min)={record['cpu_ms']:8.1f}ms"
        f" rss={record['rss_mb']:6.1f}MB"
    )
    print(line, "" if ok else outcomes[-1].error[-100:], flush=True)
