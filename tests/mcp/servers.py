"""Decides whether servers that nobody here wrote can be used through `toolgate call`.

Each server has a phase. Its tool is called there, and refused from a phase that does not grant it.
"""

import http.server
import json
import socket
import subprocess
import threading
import time
from contextlib import contextmanager

from desk import MARK, Desk, equal, has

PAGE = "The lighthouse of Penmarch was lit."


def config(server):
    phases = {"WITH": {"tools": {"mcp": ["peer"]}, "transitions": ["WITHOUT"]}, "WITHOUT": {}}
    phases["WITHOUT"]["tools"] = {"groups": ["notes"]}
    return {"packs": ["notes"], "mcp_servers": {"peer": server}, "phases": phases}


def use(place, server, calls):
    """Makes these calls, `(tool, arguments, what is in the answer)`."""
    with Desk(place, config(server)) as desk:
        for tool, args, wanted in calls:
            name = f"mcp:peer:{tool}"
            code, envelope = desk.call(name, args, "WITHOUT")
            # A server that was never asked has no tools that are known.
            refused = envelope["errors"][0]["code"] in ["TOOL_NOT_GRANTED", "TOOL_UNKNOWN"]
            equal((code, refused), (1, True))
            code, envelope = desk.call(name, args, "WITH")
            equal((code, envelope["tool"], envelope.get("errors", [])), (0, name, []))
            has(json.dumps(envelope), wanted)
            equal(place.left() if "command" in server else [], [])
        has(desk.ok("mcp", "pins", "list"), calls[0][0])
        desk.ok("verify")
    return ", ".join(tool for tool, _, _ in calls)


def stdio(place, command, *args, **variables):
    env = {MARK: place.mark, **variables}
    return {"command": command, "args": list(args), "env": env, "connect_ms_max": 30_000}


ECHO = [("echo", {"message": "hi"}, "Echo: hi"), ("get-sum", {"a": 2, "b": 3}, "5")]


def everything(place):
    return use(place, stdio(place, place.node, place.script("server-everything"), "stdio"), ECHO)


@contextmanager
def everything_at(place, spoken):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def wait(process):
        ends = time.monotonic() + 20
        while time.monotonic() < ends and process.poll() is None:
            try:
                return socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the server does not listen")

    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    env = {**place.environment, "PORT": str(port)}
    command = [place.node, place.script("server-everything"), spoken]
    with place.running(command, wait, env=env, **quiet):
        yield f"http://127.0.0.1:{port}"


def everything_http(place):
    with everything_at(place, "streamableHttp") as url:
        return use(place, {"url": f"{url}/mcp"}, ECHO)


def everything_sse(place):
    with everything_at(place, "sse") as url:
        use(place, {"url": f"{url}/sse"}, ECHO[:1])
        return use(place, {"url": f"{url}/sse", "transport": "sse"}, ECHO)


def filesystem(place):
    with Desk(place, {}) as other:
        file = other.project / "a.txt"
        server = stdio(place, place.node, place.script("server-filesystem"), str(other.project))
        # Without the network it sends nothing, so what it reads may be read on.
        server["sandbox"] = {"write": [str(other.project)], "network": "none"}
        write = {"path": str(file), "content": PAGE}
        calls = [("write_file", write, "wrote"), ("read_text_file", {"path": str(file)}, PAGE)]
        told = use(place, server, calls)
        equal(file.read_text(), PAGE)
        return told


def memory(place):
    with Desk(place, {}) as other:
        kept = str(other.project / "memory.jsonl")
        script = place.script("server-memory")
        server = stdio(place, place.node, script, MEMORY_FILE_PATH=kept)
        server["sandbox"] = {"write": [str(other.project)]}
        anna = {"name": "Anna", "entityType": "person", "observations": ["keeps a lighthouse"]}
        calls = [("create_entities", {"entities": [anna]}, "Anna"), ("read_graph", {}, "lighthouse")]
        return use(place, server, calls)


def clock(place):
    server = stdio(place, place.python, "-m", "mcp_server_time", "--local-timezone", "UTC")
    args = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    calls = [("get_current_time", {"timezone": "UTC"}, "UTC"), ("convert_time", args, "21:00")]
    return use(place, server, calls)


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        found = self.path == "/page"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(PAGE.encode() if found else b"")

    def log_message(self, *_):
        pass


def fetch(place):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        try:
            # The page is on this computer.
            args = ["-m", "mcp_server_fetch", "--allow-private-ips"]
            server = stdio(place, place.python, *args)
            url = f"http://127.0.0.1:{web.server_port}/page"
            return use(place, server, [("fetch", {"url": url}, PAGE)])
        finally:
            web.shutdown()


def git(place):
    with Desk(place, {}) as other:
        repo = str(other.project)
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        for args in [["init", "-q"], ["add", "."], [*who, "commit", "-qm", "First light"]]:
            subprocess.run(["git", "-C", repo, *args], check=True, env=other.environment)
        server = stdio(place, place.python, "-m", "mcp_server_git", "--repository", repo)
        calls = [("git_log", {"repo_path": repo}, "First light")]
        return use(place, server, [*calls, ("git_status", {"repo_path": repo}, "clean")])


CHECKS = {
    "server-everything over pipes": everything,
    "server-everything over streamable HTTP": everything_http,
    "server-everything over HTTP and events": everything_sse,
    "server-filesystem": filesystem,
    "server-memory": memory,
    "mcp-server-time": clock,
    "mcp-server-fetch": fetch,
    "mcp-server-git": git,
}


def checks(place):
    for name, check in CHECKS.items():
        yield f"real server {name}", lambda check=check: check(place)
