"""Checks toolgate against MCP software that others wrote: a suite, servers and clients.

tests/mcp/install.sh target/mcp-peers
target/mcp-peers/v/bin/python tests/mcp/check.py target/mcp-peers target/debug

The first folder has the peers, the second our programs. What is told is what was seen.
"""

import argparse
import os
import sys
import time
import traceback
from pathlib import Path

import clients
import servers
import suite
from desk import Place


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("peers", type=Path, help="the folder that install.sh made")
    options.add_argument("programs", type=Path, help="the folder with our programs")
    options.add_argument("--only", help="run what has this word in its name")
    options = options.parse_args()
    os.environ["NO_PROXY"] = "127.0.0.1,localhost"  # Everything is on this computer.
    place = Place(options.peers.resolve(), options.programs.resolve())
    passed, failed = 0, 0
    for part in [suite, servers, clients]:
        for name, check in part.checks(place):
            if options.only and options.only not in name:
                continue
            began = time.monotonic()
            try:
                told = check()
                passed += 1
                told = f" ({told})" if told else ""
                print(f"✓ {name}{told}, {time.monotonic() - began:.1f} s", flush=True)
            except Exception as error:  # Whatever a peer throws is a finding.
                failed += 1
                print(f"✗ {name}: {type(error).__name__}: {error}", flush=True)
                if not isinstance(error, AssertionError):
                    traceback.print_exc()
    left = place.left()
    for process in left:
        print(f"✗ a process was left: {process}")
    print(f"{passed} passed, {failed} failed, {len(left)} processes left")
    return 1 if failed or left or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
