"""Decides whether clients that nobody here wrote can use `toolgate mcp`.

Each does the same: it lists the tools, makes a call that is granted and two that are refused, and
moves to another phase. One also puts before its user what a person must approve.
"""

import asyncio
import json
import subprocess
from contextlib import asynccontextmanager

from desk import Desk, equal, has

CONFIG = {
    "packs": ["planning", "phase"],
    "default_phase": "WORK",
    "phases": {
        "WORK": {"transitions": ["REVIEW"], "tools": {"groups": ["planning", "phase"]}},
        "REVIEW": {"tools": {"include": ["planning_read_plan"]}},
    },
    "policies": [
        {
            "name": "short-titles",
            "rule": {
                "tools": ["planning_add_step"],
                "deny": "args.steps.exists(title, words(title) > 3)",
                "message": "A step has at most 3 words.",
                "match": [{"args": {"steps": ["one two three four"]}}],
                "not_match": [{"args": {"steps": ["Write"]}}],
            },
        }
    ],
}
# A plan needs a person's word, which the user of a client may give.
SERIOUS = {
    "packs": ["planning"],
    "policies": [
        {
            "name": "careful",
            "rule": {
                "tools": ["planning_setup_plan"],
                "ask": "true",
                "message": "A plan is serious.",
            },
        }
    ],
}
TRUSTED = "--trust-client-user"
WORK = {"planning_setup_plan", "planning_add_step", "planning_read_plan", "change_phase"}
REVIEW = {"planning_read_plan"}
NEWEST, OLDER = "2026-07-28", "2025-11-25"


async def talk(listed, call, newest, unlisted=True):
    """What each client does. `listed` gives names, `call` the text and whether it is an error.

    A client that does not send calls of tools that it was not shown has `unlisted` false.
    """
    equal(WORK <= await listed(), True)
    text, error = await call("planning_setup_plan", {"objective": "a picnic"})
    equal(error, False)
    equal(json.loads(text)["ok"], True)
    long = {"steps": ["carry the very heavy basket"]}
    text, error = await call("planning_add_step", long)
    equal(error, True)
    refused = json.loads(text)["errors"][0]
    equal(refused["code"], "POLICY_DENIED")
    has(refused["message"], "at most 3 words")
    text, error = await call("change_phase", {"new_phase": "REVIEW", "reason": "it is done"})
    equal((error, json.loads(text)["ok"]), (False, True))
    # The newest revision shows what any phase grants, the older ones what this phase grants.
    names = await listed()
    equal(WORK <= names if newest else names == REVIEW, True)
    if unlisted or newest:
        text, error = await call("planning_setup_plan", {"objective": "another"})
        equal((error, json.loads(text)["errors"][0]["code"]), (True, "TOOL_NOT_GRANTED"))
    text, error = await call("planning_read_plan", {})
    equal(error, False)
    has(text, "picnic")


def texts(result):
    return "".join(block.text for block in result.content if block.type == "text")


@asynccontextmanager
async def opened(desk, mode, address, *args, **more):
    """The official Python client, connected."""
    import httpx2
    import mcp
    from mcp.client.streamable_http import streamable_http_client

    @asynccontextmanager
    async def reached():
        if address is None:
            yield mcp.StdioServerParameters(
                command=desk.program, args=["mcp", *args], env=desk.environment, cwd=desk.project
            )
        else:
            url, token = address
            headers = {"Authorization": f"Bearer {token}"}
            async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
                yield streamable_http_client(url, http_client=http)

    more = {"mode": mode, "read_timeout_seconds": 30, "cache": None, **more}
    async with reached() as how, mcp.Client(how, **more) as client:
        equal(client.protocol_version, OLDER if mode == "legacy" else NEWEST)
        yield client


async def official(desk, mode, address):
    """The official Python client."""
    changed = asyncio.Event()

    async def heard(message):
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            changed.set()

    async with opened(desk, mode, address, message_handler=heard) as client:

        async def listed():
            return {tool.name for tool in (await client.list_tools()).tools}

        async def call(name, args):
            result = await client.call_tool(name, args)
            return texts(result), bool(result.is_error)

        newest = client.protocol_version == NEWEST
        await talk(listed, call, newest)
        if not newest:
            await asyncio.wait_for(changed.wait(), 5)
        return client.protocol_version


async def approving(desk, mode, address):
    """The same client, whose user says no, then nothing, and then yes."""
    from mcp.types import ElicitResult

    said = [
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
        ElicitResult(action="accept", content={"run": True}),
    ]
    seen = []

    async def asked(context, params):
        seen.append(params.message)
        return said[len(seen) - 1]

    more = {"elicitation_callback": asked}
    async with opened(desk, mode, address, TRUSTED, **more) as client:
        for code in ["APPROVAL_DENIED", "APPROVAL_PENDING", None]:
            result = await client.call_tool("planning_setup_plan", {"objective": "a picnic"})
            told = json.loads(texts(result))
            equal((told["ok"], bool(result.is_error)), (code is None, code is not None))
            if code:
                equal(told["errors"][0]["code"], code)
        equal(len(seen), 3)
        has(seen[0], '"objective": "a picnic"')
        return client.protocol_version


async def fast(desk, mode, address):
    """The client of fastmcp."""
    import fastmcp
    from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

    if address is None:
        env, cwd = desk.environment, str(desk.project)
        how = StdioTransport(desk.program, ["mcp"], env=env, cwd=cwd, keep_alive=False)
    else:
        how = StreamableHttpTransport(address[0], auth=address[1])
    async with fastmcp.Client(how, mode=mode, timeout=30) as client:

        async def listed():
            return {tool.name for tool in await client.list_tools()}

        async def call(name, args):
            result = await client.call_tool_mcp(name, args)
            return texts(result), bool(result.is_error)

        equal(client.protocol_version, OLDER if mode == "legacy" else NEWEST)
        await talk(listed, call, client.protocol_version == NEWEST)
        return client.protocol_version


async def inspector(desk, mode, address):
    """The inspector's command line, which starts a server anew for each request."""
    program = str(desk.place.peers / "node_modules/.bin/mcp-inspector")
    # Where the target is a command, what comes after it is the command's.
    common = ["--cli", "--format", "json", "--quiet"]
    common += ["--protocol-era", "legacy" if mode == "legacy" else "modern"]
    if address is None:
        target = ["--", desk.program, "mcp"]
    else:
        common += ["--transport", "http", "--header", f"Authorization: Bearer {address[1]}"]
        target = ["--server-url", address[0]]

    def ask(*args):
        ran = subprocess.run(
            [desk.place.node, program, *common, *args, *target], cwd=desk.project,
            env=desk.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        try:
            told = json.loads(ran.stdout)
        except ValueError:
            raise AssertionError(f"{args}: {ran.returncode} {ran.stdout} {ran.stderr}") from None
        return told.get("result", told)

    async def listed():
        return {tool["name"] for tool in ask("--method", "tools/list")["tools"]}

    async def call(name, args):
        args = ["--tool-name", name, "--tool-args-json", json.dumps(args)]
        result = ask("--method", "tools/call", *args)
        return result["content"][0]["text"], bool(result.get("isError"))

    await talk(listed, call, mode != "legacy", unlisted=False)
    return OLDER if mode == "legacy" else NEWEST


def delegate(desk, client):
    """A person lets the user of a client answer."""
    args = ["approvals", "delegate", client, "--tools", "planning_*"]
    desk.at_terminal(args, [("Type delegate", "delegate"), ("Enter for none:", "")])


def run(place, client, mode, over):
    approves = client is approving
    with Desk(place, SERIOUS if approves else CONFIG) as desk:
        if over == "HTTP":
            with desk.listening(*([TRUSTED] if approves else [])) as address:
                if approves:
                    delegate(desk, json.loads(desk.ok("token", "list", "--json"))["id"])
                told = asyncio.run(asyncio.wait_for(client(desk, mode, address), 90))
        else:
            if approves:
                delegate(desk, "stdio")
            told = asyncio.run(asyncio.wait_for(client(desk, mode, None), 90))
            equal(place.left(), [])
        desk.ok("verify")
        has(desk.ok("sessions", "show", "mcp"), "planning_setup_plan")
        if approves:
            # Both answers are those of the user of this client.
            log = desk.ok("sessions", "export", "mcp")
            equal((log.count('"human:'), log.count('"client_user:')), (0, 2))
        return told


def checks(place):
    named = {
        "mcp for Python": official,
        "mcp for Python whose user approves": approving,
        "fastmcp": fast,
        "inspector": inspector,
    }
    for name, client in named.items():
        for over in ["pipes", "HTTP"]:
            for mode in ["legacy", "auto"]:
                words = f"real client {name}, {over}, {mode}"
                yield words, lambda of=(client, mode, over): run(place, *of)
