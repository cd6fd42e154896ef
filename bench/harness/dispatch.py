"""Part B: what one tool call costs, from the model's JSON text to the tool's result."""

from . import peers, process, results


def measure(options):
    chosen = peers.present(peers.dispatchers(), options.only)
    for _ in range(2):
        for size in ("small", "medium"):
            for peer in chosen:
                measure_peer(peer, size)


def measure_peer(peer, size):
    outcome = process.run([*peer.command, size])
    report = outcome.report
    results.save(
        part="B",
        peer=peer.name,
        size=size,
        rss_mb=round(outcome.rss_mb, 1),
        **(report or {"err": outcome.error}),
    )
    call_us = report["ns"] / 1e3 if report else -1
    line = f"B {size:6} {peer.name:34} {call_us:10.2f} us/call rss={outcome.rss_mb:.0f}MB"
    print(line, "" if report else outcome.error, flush=True)
