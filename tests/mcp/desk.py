"""Decides where a check runs: a project and a home of its own, and a mark on every process."""

import json
import os
import pty
import select
import signal
import subprocess
import tempfile
import time
import uuid
from contextlib import contextmanager
from pathlib import Path

# Every process that a check starts has this variable, so that one that is left is found.
MARK = "TOOLGATE_CHECK_MARK"


def equal(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r} is not {wanted!r}")


def has(text, part):
    if part not in text:
        raise AssertionError(f"{part!r} is not in {text!r}")


class Place:
    """The programs of others and our own."""

    def __init__(self, peers, programs):
        self.peers, self.programs = peers, programs
        self.node = str(peers / "node_modules/.bin/node")
        self.python = str(peers / "v/bin/python")
        self.mark = uuid.uuid4().hex
        self.environment = {**os.environ, MARK: self.mark}
        self.environment["PATH"] = f"{peers / 'node_modules/.bin'}:{os.environ['PATH']}"

    def script(self, package):
        return str(self.peers / f"node_modules/@modelcontextprotocol/{package}/dist/index.js")

    def marked(self):
        """The processes with our mark, by id."""
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) != os.getpid():
                try:
                    if self.mark.encode() in (folder / "environ").read_bytes():
                        command = (folder / "cmdline").read_bytes()
                        found[int(folder.name)] = command.replace(b"\0", b" ").decode()
                except OSError:
                    continue  # It ended, or is somebody else's.
        return found

    def left(self, within=5.0):
        """What still runs after the time that toolgate gives itself. It is ended."""
        ends = time.monotonic() + within
        while (found := self.marked()) and time.monotonic() < ends:
            time.sleep(0.05)
        for process in found:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return list(found.values())

    @contextmanager
    def running(self, command, wait, **more):
        """A server that runs as long as the block; what `wait` says of it is given."""
        more = {"env": self.environment, "stdin": subprocess.DEVNULL, "text": True, **more}
        process = subprocess.Popen(command, **more)
        try:
            yield wait(process)
        finally:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise AssertionError(f"{command[0]} does not stop") from None


class Desk:
    """A project and a home that are gone after the check."""

    def __init__(self, place, config):
        self.place = place
        self.folder = tempfile.TemporaryDirectory(prefix="toolgate-mcp-")
        self.project, self.home = (Path(self.folder.name) / name for name in ("project", "home"))
        self.project.mkdir()
        self.home.mkdir()
        self.environment = {**place.environment, "HOME": str(self.home), "USER": "ada"}
        self.program = str(place.programs / "toolgate")
        self.write(config)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def write(self, config):
        # JSON is YAML.
        (self.project / "toolgate.yaml").write_text(json.dumps(config))

    def run(self, *args):
        return subprocess.run(
            [self.program, *args], cwd=self.project, env=self.environment, timeout=60,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def ok(self, *args):
        ran = self.run(*args)
        if ran.returncode:
            raise AssertionError(f"{args}: {ran.returncode} {ran.stdout} {ran.stderr}")
        return ran.stdout

    def at_terminal(self, args, answers):
        """Types each answer once its question is on the screen, as a person would."""
        keys, screen = pty.openpty()
        process = subprocess.Popen(
            [self.program, *args], cwd=self.project, env=self.environment,
            stdin=screen, stdout=screen, stderr=screen,
        )  # fmt: skip
        os.close(screen)
        seen = ""
        try:
            for question, answer in [*answers, (None, None)]:
                while question is None or question not in seen:
                    ready, _, _ = select.select([keys], [], [], 60)
                    try:
                        more = os.read(keys, 4096) if ready else b""
                    except OSError:
                        more = b""
                    if not more:
                        break
                    seen += more.decode(errors="replace")
                if answer is not None:
                    os.write(keys, f"{answer}\n".encode())
            if process.wait(60):
                raise AssertionError(f"{args}: {process.returncode} {seen}")
        finally:
            process.kill()
            os.close(keys)
        return seen

    def call(self, tool, args, phase):
        """The exit code and the envelope of one call."""
        trust = ["--trust", self.ok("trust", "--print").strip()]
        ran = self.run(*trust, "call", tool, json.dumps(args), "--phase", phase, "--json")
        try:
            return ran.returncode, json.loads(ran.stdout)
        except ValueError:
            raise AssertionError(f"{tool}: {ran.returncode} {ran.stdout} {ran.stderr}") from None

    @contextmanager
    def listening(self, *args):
        """The address of `toolgate mcp --http` in this project, and a token for it."""
        token = json.loads(self.ok("token", "create", "--json"))["token"]

        def wait(process):
            for line in process.stderr:
                if "Listening" in line:
                    return line.split()[-1], token
            raise AssertionError("it does not listen")

        command = [self.program, "mcp", "--http", "127.0.0.1:0", *args]
        more = {"cwd": self.project, "env": self.environment, "stderr": subprocess.PIPE}
        with self.place.running(command, wait, **more) as told:
            yield told
