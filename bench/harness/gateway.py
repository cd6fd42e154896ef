"""Part C: what an MCP gateway adds to `tools/call`, for one client and for sixteen."""

import time

from . import peers, process, results
from .settings import RELEASE

CLIENTS = (1, 16)
LOAD = f"{RELEASE}/mcpload"


def measure(options):
    port = process.free_port()
    with process.server([f"{RELEASE}/mcpecho", "http", str(port)], port) as upstream:
        url = f"http://127.0.0.1:{port}/mcp"
        gateways = peers.present(peers.gateways(port, url), options.only)
        bridges = peers.present(peers.bridges(port, url), options.only)
        for _ in range(2):
            for gateway in gateways:
                measure_gateway(gateway, upstream, url)
        for _ in range(2):
            for bridge in bridges:
                measure_bridge(bridge)


def measure_gateway(gateway, upstream, upstream_url):
    if gateway.on_port is None:
        load_http(gateway, upstream, upstream_url)
        return
    port = process.free_port()
    try:
        with process.server(gateway.on_port(port), port) as running:
            time.sleep(0.5)
            load_http(gateway, running, f"http://127.0.0.1:{port}/mcp")
    except process.NeverOpened as fault:
        print(f"skipped {gateway.name}: {fault}", flush=True)


def load_http(gateway, running, url):
    for clients in CLIENTS:
        calls = gateway.calls[clients] // clients * clients
        cpu_before_s, _ = process.tree_usage(running.pid)
        command = [LOAD, "http", url, str(clients), str(calls), "echo"]
        outcome = process.run(command, timeout_s=120)
        cpu_after_s, rss_mb = process.tree_usage(running.pid)
        # The load client's warm-up calls cost the gateway too: mcpload.rs has the same sum.
        warm = (max(calls // 10, 20) // clients + 1) * clients
        call_cpu_us = (cpu_after_s - cpu_before_s) * 1e6 / (calls + warm)
        save_and_show(gateway, clients, outcome, rss_mb, call_cpu_us)


def measure_bridge(bridge):
    for clients in CLIENTS:
        command = [LOAD, "stdio", str(clients), str(bridge.calls), "echo", "--", *bridge.command]
        save_and_show(bridge, clients, process.run(command, timeout_s=120))


def save_and_show(peer, clients, outcome, rss_mb=0, call_cpu_us=0):
    report = outcome.report
    results.save(
        part="C",
        peer=peer.name,
        conc=clients,
        rss_mb=rss_mb,
        gw_cpu_us=call_cpu_us,
        **(report or {"err": outcome.error}),
    )
    figures = outcome.error
    if report:
        figures = (
            f"p50={report['p50_us']:.0f}us p99={report['p99_us']:.0f}us"
            f" {report['calls_s']:.0f} calls/s"
        )
    usage = f"gw_cpu/call={call_cpu_us:.0f}us rss={rss_mb:.0f}MB"
    print(f"C c={clients:<2} {peer.name:38} {figures} {usage}", flush=True)
