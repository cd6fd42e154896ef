"""Says where everything lies and which environment every measured program is given."""

import os

HOME = os.path.abspath(os.environ.get("PERF_HOME") or os.path.expanduser("~/.cache/toolgate-perf"))
RESULTS = os.environ.get("PERF_OUT") or f"{HOME}/results.jsonl"
LOGS = f"{HOME}/logs"
LAUNCH = f"{HOME}/launch"
RELEASE = f"{HOME}/target/release"
VENVS = f"{HOME}/venvs"
NODE_MODULES = f"{HOME}/node/node_modules"
# Copies of peers/ and rust/; build.py says why they are not used in place.
STAGED = f"{HOME}/staged"
PEERS = f"{STAGED}/peers"

_DROPPED = (
    "PYTHONDONTWRITEBYTECODE",
    "http_proxy",
    "https_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "all_proxy",
)

_ADDED = {
    "NODE_PATH": NODE_MODULES,
    "PYTHONPATH": PEERS,
    "NO_PROXY": "*",
    "no_proxy": "*",
    "OPENAI_API_KEY": "x",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "DO_NOT_TRACK": "1",
    "FASTMCP_CHECK_FOR_UPDATES": "off",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}


def environment():
    """Ours, without proxies and with every peer's tracing and update checks turned off."""
    kept = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    return {**kept, **_ADDED}
