"""Part A, litellm: its client and a loop by hand, for it has no agent loop."""

import json

import litellm
from loop_contract import ADD_TOOL, URL, drive

litellm.suppress_debug_info = True


async def one():
    messages = [{"role": "user", "content": "go"}]
    while True:
        reply = await litellm.acompletion(
            model="openai/mock",
            api_base=URL,
            api_key="x",
            messages=messages,
            tools=[ADD_TOOL],
        )
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            args = json.loads(call.function.arguments)
            content = str(args["a"] + args["b"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


drive(one)
