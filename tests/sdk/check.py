"""Checks that the fake provider is what the official SDKs expect.

python tests/sdk/check.py target/debug/toolgate-fake

An SDK that is not installed is skipped; with --require that is a failure.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager

KEY = "sk-fake"
TEXT = "It is 21 degrees in Paris."
USAGE = {"input_tokens": 120, "output_tokens": 30, "cached_tokens": 100}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
ABOUT = "Tells the weather of a city."
FAULTS = {401: "unauthorized", 429: "rate_limited", 500: "server_error"}


@contextmanager
def fake(program, replies=(), faults=(), key=KEY):
    """The address of a fake that plays these replies, without a path."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as script:
        json.dump({"replies": list(replies)}, script)
        script.flush()
        command = [program, script.name, "--key", key]
        for fault in faults:
            command += ["--fault", fault]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            yield process.stdout.readline().strip().removesuffix("/v1")
        finally:
            process.kill()
            process.communicate()


def equal(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r} is not {wanted!r}")


def kind(value, wanted):
    if not isinstance(value, wanted):
        raise AssertionError(f"{value!r} is not a {wanted.__name__}")
    return value


# Each class below is one API of one SDK. `ask` gives the SDK's own object for a whole reply; the
# rest reads that object. The SDKs take any JSON for a reply unless they are told to be strict.


class Chat:
    package = "openai"
    tool = {
        "type": "function",
        "function": {"name": "weather", "description": ABOUT, "parameters": SCHEMA, "strict": True},
    }

    def __init__(self, url):
        self.sdk = importlib.import_module("openai")
        self.client = self.sdk.OpenAI(
            base_url=url + "/v1", api_key=KEY, max_retries=0, _strict_response_validation=True
        )
        names = "AuthenticationError", "RateLimitError", "InternalServerError"
        self.errors = {code: getattr(self.sdk, name) for code, name in zip(FAULTS, names)}

    def begin(self, words):
        return [{"role": "user", "content": words}]

    def ask(self, talk, streamed):
        asked = {"model": "gpt-fake", "messages": talk, "tools": [self.tool]}
        if not streamed:
            return self.client.chat.completions.create(**asked)
        options = {"include_usage": True}
        with self.client.chat.completions.stream(**asked, stream_options=options) as stream:
            words = [event.delta for event in stream if event.type == "content.delta"]
            reply = stream.get_final_completion()
        equal("".join(words), self.text(reply))
        return reply

    def text(self, reply):
        return kind(reply, self.sdk.types.chat.ChatCompletion).choices[0].message.content or ""

    def calls(self, reply):
        calls = [(call.id, call.function) for call in reply.choices[0].message.tool_calls or []]
        return [(id, function.name, json.loads(function.arguments)) for id, function in calls]

    def finish(self, reply):
        return {"stop": "stop", "tool_calls": "calls"}[reply.choices[0].finish_reason]

    def usage(self, reply):
        usage = kind(reply.usage, self.sdk.types.CompletionUsage)
        equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
        cached = usage.prompt_tokens_details.cached_tokens
        return usage.prompt_tokens, usage.completion_tokens, cached

    def answer(self, talk, reply, results):
        message = reply.choices[0].message.to_dict()
        for call in message["tool_calls"]:
            call["function"].pop("parsed_arguments", None)  # The stream's helper puts it there.
        ids = [call["id"] for call in message["tool_calls"]]
        tools = [
            {"role": "tool", "tool_call_id": id, "content": json.dumps(result)}
            for id, result in zip(ids, results)
        ]
        return [*talk, message, *tools]

    def status(self, error):
        return error.status_code


class Responses(Chat):
    tool = {"type": "function", "strict": True, **Chat.tool["function"]}

    def ask(self, talk, streamed):
        asked = {"model": "gpt-fake", "input": talk, "tools": [self.tool]}
        if not streamed:
            return self.client.responses.create(**asked)
        with self.client.responses.stream(**asked) as stream:
            words = [event.delta for event in stream if event.type == "response.output_text.delta"]
            reply = stream.get_final_response()
        equal("".join(words), self.text(reply))
        return reply

    def text(self, reply):
        return kind(reply, self.sdk.types.responses.Response).output_text

    def items(self, reply):
        return [item for item in reply.output if item.type == "function_call"]

    def calls(self, reply):
        return [(item.call_id, item.name, json.loads(item.arguments)) for item in self.items(reply)]

    def finish(self, reply):
        equal((reply.status, reply.error), ("completed", None))
        return "calls" if self.items(reply) else "stop"

    def usage(self, reply):
        usage = kind(reply.usage, self.sdk.types.responses.ResponseUsage)
        equal(usage.total_tokens, usage.input_tokens + usage.output_tokens)
        return usage.input_tokens, usage.output_tokens, usage.input_tokens_details.cached_tokens

    def answer(self, talk, reply, results):
        said = [item.to_dict() for item in reply.output]
        for item in said:
            item.pop("parsed_arguments", None)
        outputs = [
            {"type": "function_call_output", "call_id": item.call_id, "output": json.dumps(result)}
            for item, result in zip(self.items(reply), results)
        ]
        return [*talk, *said, *outputs]


class Messages:
    package = "anthropic"
    tool = {"name": "weather", "description": ABOUT, "input_schema": SCHEMA}

    def __init__(self, url):
        self.sdk = importlib.import_module("anthropic")
        self.client = self.sdk.Anthropic(
            base_url=url, api_key=KEY, max_retries=0, _strict_response_validation=True
        )
        names = "AuthenticationError", "RateLimitError", "InternalServerError"
        self.errors = {code: getattr(self.sdk, name) for code, name in zip(FAULTS, names)}

    def begin(self, words):
        return [{"role": "user", "content": words}]

    def ask(self, talk, streamed):
        asked = {"model": "claude-fake", "max_tokens": 500, "messages": talk, "tools": [self.tool]}
        if not streamed:
            return self.client.messages.create(**asked)
        with self.client.messages.stream(**asked) as stream:
            words = list(stream.text_stream)
            reply = stream.get_final_message()
        equal("".join(words), self.text(reply))
        return reply

    def text(self, reply):
        blocks = kind(reply, self.sdk.types.Message).content
        return "".join(block.text for block in blocks if block.type == "text")

    def calls(self, reply):
        blocks = [block for block in reply.content if block.type == "tool_use"]
        return [(block.id, block.name, block.input) for block in blocks]

    def finish(self, reply):
        return {"end_turn": "stop", "tool_use": "calls"}[reply.stop_reason]

    def usage(self, reply):
        usage = kind(reply.usage, self.sdk.types.Usage)
        cached = usage.cache_read_input_tokens
        return usage.input_tokens + cached, usage.output_tokens, cached

    def answer(self, talk, reply, results):
        blocks = [
            {"type": "tool_result", "tool_use_id": id, "content": json.dumps(result)}
            for (id, _, _), result in zip(self.calls(reply), results)
        ]
        said = {"role": "assistant", "content": reply.content}
        return [*talk, said, {"role": "user", "content": blocks}]

    def status(self, error):
        types = {401: "authentication_error", 429: "rate_limit_error", 500: "api_error"}
        equal(error.type, types[error.status_code])
        return error.status_code


class Gemini:
    package = "google.genai"

    def __init__(self, url):
        self.sdk = importlib.import_module("google.genai")
        self.types = self.sdk.types
        options = self.types.HttpOptions(
            base_url=url, retry_options=self.types.HttpRetryOptions(attempts=1)
        )
        self.client = self.sdk.Client(api_key=KEY, vertexai=False, http_options=options)
        errors = importlib.import_module("google.genai.errors")
        self.errors = {401: errors.ClientError, 429: errors.ClientError, 500: errors.ServerError}
        declared = {"name": "weather", "description": ABOUT, "parameters_json_schema": SCHEMA}
        tool = self.types.Tool(function_declarations=[declared])
        self.config = self.types.GenerateContentConfig(tools=[tool])

    def begin(self, words):
        return [self.types.UserContent(words)]

    def ask(self, talk, streamed):
        asked = {"model": "gemini-fake", "contents": talk, "config": self.config}
        if not streamed:
            return self.client.models.generate_content(**asked)
        # The SDK does not join the pieces of a stream: the last one has the end and the usage.
        pieces = list(self.client.models.generate_content_stream(**asked))
        reply = pieces[-1]
        contents = [piece.candidates[0].content for piece in pieces]
        reply.candidates[0].content = self.types.ModelContent(
            [part for content in contents for part in content.parts or []]
        )
        return reply

    def text(self, reply):
        parts = kind(reply, self.types.GenerateContentResponse).parts
        return "".join(part.text for part in parts if part.text)

    def calls(self, reply):
        return [(call.id, call.name, call.args) for call in reply.function_calls or []]

    def finish(self, reply):
        equal(reply.candidates[0].finish_reason, self.types.FinishReason.STOP)
        return "calls" if reply.function_calls else "stop"

    def usage(self, reply):
        usage = kind(reply.usage_metadata, self.types.GenerateContentResponseUsageMetadata)
        equal(usage.total_token_count, usage.prompt_token_count + usage.candidates_token_count)
        cached = usage.cached_content_token_count
        return usage.prompt_token_count, usage.candidates_token_count, cached

    def answer(self, talk, reply, results):
        parts = []
        for (id, name, _), result in zip(self.calls(reply), results):
            response = self.types.FunctionResponse(id=id, name=name, response=result)
            parts.append(self.types.Part(function_response=response))
        return [*talk, reply.candidates[0].content, self.types.UserContent(parts)]

    def status(self, error):
        # The message and the status in words are read from the body.
        words = {401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}
        equal((error.message, error.status), ("staged", words[error.code]))
        return error.code


def says_words(api, program, streamed):
    with fake(program, [{"text": TEXT}]) as url:
        api = api(url)
        reply = api.ask(api.begin("How warm is it?"), streamed)
        equal((api.text(reply), api.calls(reply), api.finish(reply)), (TEXT, [], "stop"))


def calls_tools(api, program, streamed, cities):
    wanted = [{"id": f"call_{city}", "tool": "weather", "args": {"city": city}} for city in cities]
    with fake(program, [{"text": "I look.", "calls": wanted}, {"text": TEXT}]) as url:
        api = api(url)
        talk = api.begin("How warm is it?")
        reply = api.ask(talk, streamed)
        found = [(f"call_{city}", "weather", {"city": city}) for city in cities]
        equal((api.text(reply), api.finish(reply)), ("I look.", "calls"))
        equal(api.calls(reply), found)
        # The fake refuses a talk that the provider would refuse.
        reply = api.ask(api.answer(talk, reply, [{"degrees": 21}] * len(cities)), streamed)
        equal((api.text(reply), api.finish(reply)), (TEXT, "stop"))


def calls_only(api, program, streamed):
    """A reply with a call and no words, and a call without arguments."""
    wanted = [{"id": "call_1", "tool": "weather"}]
    with fake(program, [{"calls": wanted}, {"text": TEXT}]) as url:
        api = api(url)
        talk = api.begin("How warm is it?")
        reply = api.ask(talk, streamed)
        equal((api.text(reply), api.calls(reply)), ("", [("call_1", "weather", {})]))
        reply = api.ask(api.answer(talk, reply, [{"degrees": 21}]), streamed)
        equal(api.text(reply), TEXT)


def counts_usage(api, program, streamed):
    with fake(program, [{"text": TEXT, "usage": USAGE}]) as url:
        api = api(url)
        equal(api.usage(api.ask(api.begin("How warm is it?"), streamed)), tuple(USAGE.values()))


def fails(api, program, streamed, code):
    with fake(program, faults=[FAULTS[code]]) as url:
        api = api(url)
        try:
            api.ask(api.begin("How warm is it?"), streamed)
        except api.errors[code] as error:
            equal(api.status(error), code)
            equal("staged" in str(error), True)
        else:
            raise AssertionError("nothing was raised")
        # With retries off nothing else was asked: the next request gets the first reply.
        equal(api.text(api.ask(api.begin("And now?"), streamed)), "Done.")


def wants_key(api, program, streamed):
    with fake(program, key="another") as url:
        api = api(url)
        try:
            api.ask(api.begin("How warm is it?"), streamed)
        except api.errors[401]:
            return
        raise AssertionError("nothing was raised")


CHECKS = {
    "words": says_words,
    "one call and its result": lambda *of: calls_tools(*of, ["Paris"]),
    "parallel calls and their results": lambda *of: calls_tools(*of, ["Paris", "Rome", "Oslo"]),
    "a call without words and arguments": calls_only,
    "usage": counts_usage,
    "a wrong key": wants_key,
    "401": lambda *of: fails(*of, 401),
    "429": lambda *of: fails(*of, 429),
    "500": lambda *of: fails(*of, 500),
}


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("fake", help="the program toolgate-fake")
    options.add_argument("--require", action="store_true", help="fail where an SDK is missing")
    options = options.parse_args()
    os.environ["NO_PROXY"] = "127.0.0.1"  # The fake is on this computer.
    passed, failed, skipped = 0, 0, 0
    for api in [Chat, Responses, Messages, Gemini]:
        name = f"{api.package} {api.__name__.lower()}"
        try:
            importlib.import_module(api.package)
        except ImportError as error:
            skipped += 2 * len(CHECKS)
            print(f"- {name}: skipped, the SDK is not installed ({error})")
            continue
        for what, check in CHECKS.items():
            for streamed in [False, True]:
                line = f"{name}, {'streamed' if streamed else 'plain'}: {what}"
                try:
                    check(api, options.fake, streamed)
                    passed += 1
                    print(f"✓ {line}")
                except Exception as error:  # Whatever an SDK throws is a finding.
                    failed += 1
                    print(f"✗ {line}: {type(error).__name__}: {error}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or (skipped and options.require) else 0


if __name__ == "__main__":
    sys.exit(main())
