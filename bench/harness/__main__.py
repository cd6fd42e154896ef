"""The command line: reads the options, builds what is needed, then measures or reports."""

import argparse
import os
import shutil
import signal
import sys

from . import build, cold, dispatch, gateway, loop, process, report

PARTS = {
    "A": (loop.measure, "the agent loop, per turn"),
    "B": (dispatch.measure, "one tool call"),
    "C": (gateway.measure, "an MCP gateway"),
    "D": (cold.measure, "a cold start"),
}


def main():
    options = parser().parse_args()
    if options.command == "report":
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `./run.sh report | head` may hang up.
        report.show(options)
        return
    if options.command == "A" and os.environ.get("PERF_PIN") and not shutil.which("taskset"):
        sys.exit("run.sh: PERF_PIN needs the command taskset")
    build.prepare()
    # Ending by exception is what lets the servers we started be stopped, under `timeout` too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    measure, _ = PARTS[options.command]
    try:
        measure(options)
    except process.NeverOpened as fault:
        sys.exit(str(fault))


def parser():
    top = argparse.ArgumentParser(prog="run.sh", description="Measures ours beside the peers.")
    commands = top.add_subparsers(dest="command", required=True, metavar="A|B|C|D|report")
    for name, (_, about) in PARTS.items():
        part = commands.add_parser(name, help=about)
        part.add_argument(
            "--only",
            type=lambda text: text.split(","),
            metavar="NAME,NAME",
            help="only peers whose name holds one of these; limits are always measured",
        )
        part.add_argument(
            "--cases",
            type=case_numbers,
            metavar="0,3",
            help="part A: only these cases, by position in harness/loop.py",
        )
        part.add_argument("--quick", action="store_true", help="part A: one repetition, not two")
    tables = commands.add_parser("report", help="tables of all results so far")
    tables.add_argument("files", nargs="*", help="results files (default: this home's own)")
    return top


def case_numbers(text):
    numbers = [int(number) for number in text.split(",")]
    if not all(0 <= number < len(loop.CASES) for number in numbers):
        raise argparse.ArgumentTypeError(f"cases are 0 to {len(loop.CASES) - 1}")
    return numbers


main()
