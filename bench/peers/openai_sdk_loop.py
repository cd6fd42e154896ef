"""Part A, the bare openai SDK and a loop by hand: the floor for any framework built on it."""

import json

from loop_contract import ADD_TOOL, URL, drive
from openai import AsyncOpenAI

client = AsyncOpenAI(base_url=URL, api_key="x")


async def one():
    messages = [{"role": "user", "content": "go"}]
    while True:
        reply = await client.chat.completions.create(
            model="mock",
            messages=messages,
            tools=[ADD_TOOL],
        )
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content
        call = message.tool_calls[0]
        args = json.loads(call.function.arguments)
        function = {"name": "add", "arguments": call.function.arguments}
        calls = [{"id": call.id, "type": "function", "function": function}]
        content = str(args["a"] + args["b"])
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


drive(one)
