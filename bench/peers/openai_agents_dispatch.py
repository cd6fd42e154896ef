"""Part B, openai-agents: a `FunctionTool` invoked as its runner would."""

from agents import function_tool
from agents.tool_context import ToolContext
from dispatch_contract import NAME, TEXT, bench_async
from dispatch_models import Edit, Meta


@function_tool
def add(a: int, b: int) -> int:
    return a + b


@function_tool
def apply(path: str, edits: list[Edit], dry_run: bool, tags: list[str], meta: Meta) -> int:
    return len(edits)


tool = add if NAME == "add" else apply
context = ToolContext(context=None, tool_name=NAME, tool_call_id="x", tool_arguments=TEXT)


async def call():
    return await tool.on_invoke_tool(context, TEXT)


bench_async(call)
