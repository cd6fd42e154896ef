"""Part A, pydantic-ai: its `Agent`, plain or streamed."""

from loop_contract import STREAM, URL, drive
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

agent = Agent(OpenAIChatModel("mock", provider=OpenAIProvider(base_url=URL, api_key="x")))
NO_LIMIT = UsageLimits(request_limit=None)


@agent.tool_plain
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


async def one():
    if not STREAM:
        return (await agent.run("go", usage_limits=NO_LIMIT)).output
    async with agent.iter("go", usage_limits=NO_LIMIT) as run:
        async for node in run:
            if Agent.is_model_request_node(node):
                async with node.stream(run.ctx) as events:
                    async for _ in events:
                        pass
    return run.result.output


drive(one)
