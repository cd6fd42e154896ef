"""Part A, openai-agents: its `Runner`, plain or streamed."""

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from loop_contract import STREAM, URL, drive
from openai import AsyncOpenAI

set_tracing_disabled(True)


@function_tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


client = AsyncOpenAI(base_url=URL, api_key="x")
model = OpenAIChatCompletionsModel(model="mock", openai_client=client)
agent = Agent(name="a", model=model, tools=[add])


async def one():
    if not STREAM:
        return (await Runner.run(agent, "go", max_turns=1000)).final_output
    run = Runner.run_streamed(agent, "go", max_turns=1000)
    async for _ in run.stream_events():
        pass
    return run.final_output


drive(one)
