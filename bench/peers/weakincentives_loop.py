"""Part A, weakincentives 0.24, its last release with an OpenAI adapter.

The adapter speaks the Responses API, which the mock scripts too.
"""

from dataclasses import dataclass

from loop_contract import URL, drive_sync
from openai import OpenAI
from weakincentives.adapters.openai import OpenAIAdapter
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
class Out:
    n: int

    def render(self) -> str:
        return str(self.n)


def add(params: Add, *, context: ToolContext) -> ToolResult[Out]:
    return ToolResult.ok(Out(params.a + params.b), message=str(params.a + params.b))


tool = Tool[Add, Out](name="add", description="Add two integers.", handler=add)
section = MarkdownSection(title="T", key="t", template="go", tools=(tool,))
template = PromptTemplate(ns="p", key="k", name="bench", sections=(section,))
adapter = OpenAIAdapter(model="mock", client=OpenAI(base_url=URL, api_key="x"))


def one():
    return adapter.evaluate(Prompt(template), session=Session()).text


drive_sync(one)
