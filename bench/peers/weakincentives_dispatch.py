"""Part B, weakincentives 0.27, the governed peer.

Its `BridgedTool` parses, asks the policies, takes a snapshot to roll back to, and records a
`ToolInvoked` event.
"""

import json
from dataclasses import dataclass
from typing import Literal

from dispatch_contract import NAME, TEXT, bench_sync
from weakincentives.adapters._shared._bridge import create_bridged_tools
from weakincentives.prompt import (
    MarkdownSection,
    Prompt,
    PromptTemplate,
    Tool,
    ToolContext,
    ToolResult,
)
from weakincentives.runtime import Session


@dataclass(frozen=True)
class Add:
    a: int
    b: int


@dataclass(frozen=True)
class Edit:
    line: int
    text: str
    op: Literal["insert", "delete", "replace"]


@dataclass(frozen=True)
class Meta:
    author: str
    priority: int


@dataclass(frozen=True)
class Apply:
    path: str
    edits: tuple[Edit, ...]
    dry_run: bool
    tags: tuple[str, ...]
    meta: Meta


@dataclass(frozen=True)
class Out:
    n: int

    def render(self) -> str:
        return str(self.n)


def add(params: Add, *, context: ToolContext) -> ToolResult[Out]:
    return ToolResult.ok(Out(params.a + params.b), message=str(params.a + params.b))


def apply(params: Apply, *, context: ToolContext) -> ToolResult[Out]:
    return ToolResult.ok(Out(len(params.edits)), message=str(len(params.edits)))


tools = (
    Tool[Add, Out](name="add", description="Add.", handler=add),
    Tool[Apply, Out](name="apply", description="Apply.", handler=apply),
)
section = MarkdownSection(title="T", key="t", template="go", tools=tools)
prompt = Prompt(PromptTemplate(ns="p", key="k", name="bench", sections=(section,)))

with prompt.resources:
    bridged = create_bridged_tools(
        tools,
        session=Session(),
        adapter=None,
        prompt=prompt,
        rendered_prompt=prompt.render(),
        deadline=None,
        budget_tracker=None,
    )
    tool = next(tool for tool in bridged if tool.name == NAME)
    bench_sync(lambda: tool(json.loads(TEXT)), 100)
