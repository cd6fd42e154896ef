"""Runs the peers, the limits and ours side by side; `python3 -m harness --help` lists the parts."""
