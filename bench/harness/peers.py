"""Lists who is measured in each part: the limits, the peers, and ours where a hook names it."""

import atexit
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from .settings import NODE_MODULES, PEERS, RELEASE, VENVS


class Pace(Enum):
    """How quick a loop is, and so how many runs of it make a fair sample."""

    LIMIT = "limit"
    FAST = "fast"
    JIT = "jit"  # Fast only once its compiler has settled.
    SLOW = "slow"


@dataclass
class Peer:
    """A program to measure, and the files and commands without which it cannot start."""

    name: str
    needs: list[str]
    command: list[str] = field(default_factory=list)

    def missing(self):
        def found(need):
            return os.path.exists(need) if "/" in need else shutil.which(need)

        return [need for need in self.needs if not found(need)]


@dataclass
class Loop(Peer):
    pace: Pace = Pace.SLOW
    streams: bool = False


# Calls made through a gateway, by number of clients.
FAST_CALLS = {1: 20000, 16: 40000}
SLOW_CALLS = {1: 600, 16: 1600}


@dataclass
class Gateway(Peer):
    """A gateway's command depends on the port it is given; `None` is no gateway at all."""

    on_port: Callable[[int], list[str]] | None = None
    calls: dict[int, int] = field(default_factory=lambda: SLOW_CALLS)


@dataclass
class Bridge(Peer):
    """A stdio server that stands in front of an HTTP one."""

    calls: int = 600


def present(peers, only):
    """Those that `--only` names (limits always) and that are installed; says which are not."""
    chosen = []
    for peer in peers:
        wanted = not only or any(part in peer.name for part in only)
        if not wanted and "limit" not in peer.name:
            continue
        missing = peer.missing()
        if missing:
            installed = missing[0].startswith((VENVS, NODE_MODULES))
            hint = " (./setup.sh installs it)" if installed else ""
            print(f"skipped {peer.name}: there is no {', no '.join(missing)}{hint}", flush=True)
            continue
        chosen.append(peer)
    return chosen


def _rust(program):
    return f"{RELEASE}/{program}"


def _python(venv):
    return f"{VENVS}/{venv}/bin/python"


def _hook(variable):
    """Our own command, if the environment names one."""
    return shlex.split(os.environ.get(variable, ""))


def loops():
    def rust(name, program, pace, streams=True):
        path = _rust(program)
        return Loop(name, [path], [path], pace, streams)

    def python(name, venv, script, streams):
        path = _python(venv)
        return Loop(name, [path], [path, f"{PEERS}/{script}"], Pace.SLOW, streams)

    vercel = ["node", f"{PEERS}/vercel_loop.mjs"]
    found = [
        rust("raw-hyper (limit)", "loop_raw", Pace.LIMIT, streams=False),
        rust("rust reqwest+Value", "loop_reqwest", Pace.FAST),
        rust("rig", "loop_rig", Pace.FAST),
        Loop("vercel-ai", ["node", f"{NODE_MODULES}/ai"], vercel, Pace.JIT, True),
        python("openai-sdk+loop", "openai-agents", "openai_sdk_loop.py", streams=False),
        python("pydantic-ai", "pydantic-ai", "pydantic_ai_loop.py", streams=True),
        python("openai-agents", "openai-agents", "openai_agents_loop.py", streams=True),
        python("langgraph", "langgraph", "langgraph_loop.py", streams=True),
        python("litellm+loop", "litellm", "litellm_loop.py", streams=False),
        python("weakincentives", "wi024", "weakincentives_loop.py", streams=False),
    ]
    ours = _hook("OURS_LOOP")
    if ours:
        found.append(Loop("OURS", ours[:1], ours, Pace.FAST, True))
    return found


def dispatchers():
    def rust(name, kind):
        path = _rust("dispatch")
        return Peer(name, [path], [path, kind])

    def python(name, venv, script):
        path = _python(venv)
        return Peer(name, [path], [path, f"{PEERS}/{script}"])

    found = [
        rust("raw serde+fn (limit)", "raw"),
        rust("raw serde+jsonschema+fn (limit)", "rawschema"),
        rust("rig ToolSet", "rig"),
        python("openai-agents FunctionTool", "openai-agents", "openai_agents_dispatch.py"),
        python("pydantic-ai ToolManager", "pydantic-ai", "pydantic_ai_dispatch.py"),
        python("langgraph ToolNode", "langgraph", "langgraph_dispatch.py"),
        python("weakincentives BridgedTool", "weakincentives", "weakincentives_dispatch.py"),
    ]
    ours = _hook("OURS_DISPATCH")
    if ours:
        found.append(Peer("OURS", ours[:1], ours))
    return found


def gateways(upstream_port, upstream_url):
    echo, rawgw = _rust("mcpecho"), _rust("rawgw")
    direct = Gateway("direct http (limit)", [echo], calls=FAST_CALLS)
    raw = Gateway(
        "raw hyper fwd (gw limit)",
        [rawgw],
        on_port=lambda port: [rawgw, str(port), f"127.0.0.1:{upstream_port}"],
        calls=FAST_CALLS,
    )
    found = [direct, raw]
    found += _fastmcp_gateways(upstream_url)
    found += [_mcp_proxy_gateway(), *_supergateway_gateways()]
    return found + _our_gateways(upstream_url)


# The word of `OURS_GW` that stands for a log on disk.
DURABLE = "{durable}"


def _our_gateways(upstream_url):
    ours = _hook("OURS_GW") or []

    def gateway(name, durable):
        def command(port):
            words = []
            for word in ours:
                if word != DURABLE:
                    words.append(word.format(port=port, upstream=upstream_url))
                elif durable:
                    words += ["--durable", _folder()]
            return words

        return Gateway(f"OURS http->http{name}", ours[:1], on_port=command, calls=FAST_CALLS)

    found = [gateway("", durable=False)] if ours else []
    if DURABLE in ours:
        found.append(gateway(" durable", durable=True))
    return found


def _folder():
    """A new folder that is gone when the harness ends."""
    folder = tempfile.mkdtemp(prefix="ours-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _fastmcp_gateways(upstream_url):
    python = _python("fastmcp")

    def fastmcp(name, calls, *arguments):
        def command(port):
            return [python, f"{PEERS}/fastmcp_proxy.py", str(port), *arguments]

        return Gateway(f"fastmcp proxy {name}", [python], on_port=command, calls=calls)

    # Without a shared session it opens one upstream for every call, hence the few calls.
    return [
        fastmcp("http->http", {1: 128, 16: 160}, "http", upstream_url),
        fastmcp("http->http shared session", SLOW_CALLS, "shared", upstream_url),
        fastmcp("http->stdio", SLOW_CALLS, "stdio", _rust("mcpecho"), "stdio"),
    ]


MCP_PROXY = [f"{VENVS}/mcp-proxy/bin/mcp-proxy", "--log-level", "ERROR"]


def _mcp_proxy_gateway():
    echo = [_rust("mcpecho"), "stdio"]

    def command(port):
        return [*MCP_PROXY, "--port", str(port), *echo]

    return Gateway("mcp-proxy http->stdio", MCP_PROXY[:1], on_port=command)


SUPERGATEWAY = ["node", f"{NODE_MODULES}/supergateway/dist/index.js"]


def _supergateway_gateways():
    echo = f"{_rust('mcpecho')} stdio"

    def supergateway(name, calls, *flags):
        def command(port):
            transport = ["--stdio", echo, "--outputTransport", "streamableHttp", *flags]
            return [*SUPERGATEWAY, *transport, "--port", str(port), "--logLevel", "none"]

        name = f"supergateway http->stdio {name}"
        return Gateway(name, SUPERGATEWAY, on_port=command, calls=calls)

    # Stateless, it starts a server for every call, hence the few calls.
    return [
        supergateway("stateful", SLOW_CALLS, "--stateful"),
        supergateway("stateless", {1: 60, 16: 96}),
    ]


def bridges(upstream_port, upstream_url):
    echo, rawpipe = _rust("mcpecho"), _rust("rawpipe")
    forward = [rawpipe, f"127.0.0.1:{upstream_port}"]
    mcp_proxy = [*MCP_PROXY, "--transport", "streamablehttp", upstream_url]
    supergateway = [*SUPERGATEWAY, "--streamableHttp", upstream_url, "--logLevel", "none"]
    found = [
        Bridge("direct stdio (limit)", [echo], [echo, "stdio"], calls=20000),
        Bridge("raw stdio fwd (gw limit)", [rawpipe], forward, calls=20000),
        Bridge("mcp-proxy stdio->http", MCP_PROXY[:1], mcp_proxy),
        Bridge("supergateway stdio->http", SUPERGATEWAY, supergateway),
    ]
    ours = _hook("OURS_GW_STDIO")
    if ours:
        command = [word.format(upstream=upstream_url) for word in ours]
        found.append(Bridge("OURS stdio->http", ours[:1], command, calls=20000))
    return found


def cold_starts():
    def rust(name, program):
        path = _rust(program)
        return Peer(name, [path], [path])

    def python(name, venv, code):
        path = _python(venv)
        return Peer(name, [path], [path, "-c", code])

    ai = f"{NODE_MODULES}/ai/dist/index.mjs"
    node = ["node", "--input-type=module", "-e", f"await import('{ai}')"]
    openai_model = "import pydantic_ai, pydantic_ai.models.openai"
    create_agent = "import langgraph, langchain.agents, langchain_openai"
    found = [
        python("python -c pass", "pydantic-ai", "pass"),
        python("import pydantic_ai", "pydantic-ai", "import pydantic_ai"),
        python("import pydantic_ai + openai model", "pydantic-ai", openai_model),
        python("import agents (openai-agents)", "openai-agents", "import agents"),
        python("import langgraph (+create_agent, ChatOpenAI)", "langgraph", create_agent),
        python("import langgraph.graph", "langgraph", "import langgraph.graph"),
        python("import weakincentives", "weakincentives", "import weakincentives"),
        python("import fastmcp", "fastmcp", "import fastmcp"),
        python("import litellm", "litellm", "import litellm"),
        python("import smolagents", "smolagents", "import smolagents"),
        Peer("node: import ai", ["node", ai], node),
        rust("rig trivial (client+agent)", "cold_rig"),
        rust("axum+sqlite trivial", "cold_axum"),
    ]
    ours = _hook("OURS_COLD")
    if ours:
        found.append(Peer("OURS", ours[:1], ours))
    return found
