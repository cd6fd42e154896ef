"""Part A, langgraph: langchain's `create_agent`."""

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from loop_contract import STREAM, URL, drive


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


model = ChatOpenAI(
    model="mock",
    base_url=URL,
    api_key="x",
    streaming=STREAM,
    use_responses_api=False,
)
agent = create_agent(model, [add])


async def one():
    state = await agent.ainvoke({"messages": [("user", "go")]}, {"recursion_limit": 100000})
    return state["messages"][-1].content


drive(one)
