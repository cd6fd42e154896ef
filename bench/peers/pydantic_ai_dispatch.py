"""Part B, pydantic-ai: a `ToolManager` over a function toolset."""

import asyncio

from dispatch_contract import NAME, TEXT, bench_async
from dispatch_models import Edit, Meta
from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

try:
    from pydantic_ai.tool_manager import ToolManager
except ImportError:
    from pydantic_ai._tool_manager import ToolManager


def add(a: int, b: int) -> int:
    return a + b


def apply(path: str, edits: list[Edit], dry_run: bool, tags: list[str], meta: Meta) -> int:
    return len(edits)


async def prepare():
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage(), run_step=1)
    manager = await ToolManager(FunctionToolset([add, apply])).for_run_step(context)
    part = ToolCallPart(NAME, TEXT, tool_call_id="x")
    return lambda: manager.handle_call(part)


bench_async(asyncio.run(prepare()))
