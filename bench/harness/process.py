"""Starts, times and stops programs, and reads what they used."""

import json
import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from . import settings


class NeverOpened(Exception):
    """A server did not open its port in time, or ended first."""


@dataclass
class Outcome:
    """What one finished program reported and used."""

    report: dict | None  # the last line of its output that is JSON
    rss_mb: float  # peak
    cpu_s: float  # the whole process, start-up included
    exit_code: int
    error: str  # the end of its standard error


def run(command, extra_env=None, timeout_s=240):
    """Runs `command` to its end, or kills it after `timeout_s`."""
    usage_path = f"{settings.LOGS}/ru.{os.getpid()}"
    with open(usage_path, "w") as file:
        file.write("0 0 0")
    process = subprocess.Popen(
        [settings.LAUNCH, usage_path, *command],
        env={**settings.environment(), **(extra_env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, error = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, error = process.communicate()
    except BaseException:
        stop(process)
        raise
    with open(usage_path) as file:
        rss_kb, user_s, system_s = (float(field) for field in file.read().split())
    os.unlink(usage_path)
    return Outcome(
        report=_last_json(output),
        rss_mb=rss_kb / 1024,
        cpu_s=user_s + system_s,
        exit_code=process.returncode,
        error=error[-300:],
    )


def _last_json(output):
    for line in reversed(output.splitlines()):
        try:
            return json.loads(line)
        except ValueError:
            continue
    return None


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def server(command, port, timeout_s=60):
    """Keeps `command` running while the block does, once its port accepts connections."""
    with open(f"{settings.LOGS}/srv.out", "a") as log:
        process = subprocess.Popen(
            command,
            env=settings.environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_for_port(process, port, timeout_s)
        yield process
    finally:
        stop(process)


def _wait_for_port(process, port, timeout_s):
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.05)
    raise NeverOpened(f"port {port} never opened; see {settings.LOGS}/srv.out")


def stop(process):
    """Ends `process` and whatever it started: first asks, after five seconds insists."""
    _signal_group(process, signal.SIGTERM)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        _signal_group(process, signal.SIGKILL)
        process.wait()


def _signal_group(process, number):
    with suppress(OSError):
        os.killpg(process.pid, number)


def tree_usage(root):
    """CPU seconds and resident MB of the process `root` and all its descendants."""
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    page_mb = os.sysconf("SC_PAGE_SIZE") / 1024 / 1024
    parents, cpu_s, rss_mb = {}, {}, {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                # The program's name is in parentheses and may hold spaces: read after it.
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue  # It ended while we were looking.
        pid = int(entry)
        parents[pid] = int(fields[1])
        cpu_s[pid] = sum(int(ticks) for ticks in fields[11:15]) / ticks_per_s
        rss_mb[pid] = int(fields[21]) * page_mb
    tree = _descendants(root, parents)
    return sum(cpu_s[pid] for pid in tree), sum(rss_mb[pid] for pid in tree)


def _descendants(root, parents):
    tree = {root} & parents.keys()
    grown = True
    while grown:
        grown = {pid for pid, parent in parents.items() if parent in tree} - tree
        tree |= grown
    return tree
