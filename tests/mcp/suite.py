"""Decides whether the official conformance suite is content with our server and our client.

The suite says which scenarios a revision of the specification asks for. All of them must pass,
except those in exceptions.txt, which must fail: a line there that is no longer true is removed.
"""

import re
import subprocess
import tempfile
from pathlib import Path

REVISIONS = ["2025-11-25", "2026-07-28"]
# Checks that were counted when this was written; fewer mean that the suite did not do its work.
LEAST = {
    ("server", "2025-11-25"): 69,
    ("server", "2026-07-28"): 120,
    ("client", "2025-11-25"): 273,
    ("client", "2026-07-28"): 420,
}


def exceptions(side, revision):
    """The scenarios that may fail, and why."""
    found = {}
    for line in (Path(__file__).parent / "exceptions.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            head, why = line.split(": ", 1)
            of, at, scenario = head.split()
            if not why.strip():
                raise AssertionError(f"{scenario} has no reason")
            if (of, at) == (side, revision):
                found[scenario] = why
    return found


def judge(side, revision, printed):
    """Reads the suite's own summary."""
    summary, unscored = printed, ""
    if (cut := printed.rfind("Not scored for ")) >= 0:
        summary, unscored = printed[:cut], printed[cut:]
    aside = set(re.findall(r"^  [✓✗] (\S+) \(", unscored, re.M))
    lines = re.findall(r"^([✓✗]) (\S+): (\d+) passed, (\d+) failed", summary, re.M)
    scored = {name: (mark == "✓", int(passed)) for mark, name, passed, _ in lines if name not in aside}
    expected = exceptions(side, revision)
    failing = {name for name, (good, _) in scored.items() if not good}
    problems = [f"{name} fails" for name in sorted(failing - set(expected))]
    problems += [f"{name} is an exception and did not fail" for name in sorted(set(expected) - failing)]
    count = sum(passed for good, passed in scored.values() if good)
    if count < LEAST[side, revision]:
        problems.append(f"only {count} checks passed")
    if problems:
        raise AssertionError("; ".join(problems) + "\n" + printed[-4000:])
    good = len(scored) - len(failing)
    return f"{good} of {len(scored)} scored scenarios, {count} checks, {len(expected)} exceptions"


def ask(place, side, revision, *args):
    program = [place.node, place.script("conformance"), side, *args]
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [*program, "--requirements", revision, "-o", folder, "--timeout", "15000"],
            env=place.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=120, check=False, cwd=folder,
        )  # fmt: skip
    return judge(side, revision, ran.stdout)


def server(place, revision):
    def wait(process):
        return process.stdout.readline().strip()

    command = [str(place.programs / "toolgate-fixture-mcp")]
    with place.running(command, wait, stdout=subprocess.PIPE) as url:
        return ask(place, "server", revision, "--url", url)


def client(place, revision):
    return ask(place, "client", revision, "--command", str(place.programs / "examples/caller"))


def checks(place):
    for revision in REVISIONS:
        for side in [server, client]:
            name = f"conformance suite {revision}, our {side.__name__}"
            yield name, lambda side=side, revision=revision: side(place, revision)
