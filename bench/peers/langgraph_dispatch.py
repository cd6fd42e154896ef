"""Part B, langgraph: a `ToolNode` given one call; a second argument `tool` calls the tool alone."""

import json
import sys

from dispatch_contract import NAME, TEXT, bench_async
from dispatch_models import Edit, Meta
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def apply(path: str, edits: list[Edit], dry_run: bool, tags: list[str], meta: Meta) -> int:
    """Apply."""
    return len(edits)


node = ToolNode([add, apply])
# What a running graph would hand to its nodes.
config = {"configurable": {"__pregel_runtime": Runtime()}}


async def call_node():
    call = {"name": NAME, "args": json.loads(TEXT), "id": "x"}
    return await node.ainvoke({"messages": [AIMessage("", tool_calls=[call])]}, config)


async def call_tool():
    return await (add if NAME == "add" else apply).ainvoke(json.loads(TEXT))


mode = sys.argv[2] if len(sys.argv) > 2 else "node"
bench_async(call_node if mode == "node" else call_tool, 150)
