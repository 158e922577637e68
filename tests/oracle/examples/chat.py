"""For each rule of OpenAI's dialect, a vendor and what breaks the rule, beside `ALLOWED`."""

from collections.abc import Mapping
from typing import Final

from tests.oracle.reading import Json

USER: Final[Json] = {"role": "user", "content": "hi"}
FUNCTION: Final[Json] = {"name": "look", "parameters": {"type": "object", "properties": {}}}
TOOL: Final[Json] = {"type": "function", "function": FUNCTION}
CHOICE: Final[Json] = {"type": "function", "function": {"name": "look"}}


def call(id: str = "abcdefgh0", name: str = "look") -> Json:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def assistant(*calls: Json, **more: object) -> Json:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **more}


def result(id: str = "abcdefgh0") -> Json:
    return {"role": "tool", "tool_call_id": id, "content": "19"}


def says(*messages: Json) -> Json:
    return {"messages": list(messages)}


ALLOWED: Final[Json] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be kind."},
        USER,
        assistant(call()),
        result(),
    ],
    "tools": [TOOL],
}
JSON_MODE: Final[Json] = {"response_format": {"type": "json_object"}}
OPEN: Final[Json] = {"type": "object", "properties": {"a": {"type": "string"}}}


def answers(**schema: object) -> Json:
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


REFUSED: Final[Mapping[str, tuple[str, Json]]] = {
    "chat-messages": ("openai", says()),
    "chat-calls-answered": ("openai", says(USER, assistant(call()), USER)),
    "chat-results-called": ("compatible", says(USER, result())),
    "chat-call-ids": ("azure", says(USER, assistant(call("c" * 41)), result("c" * 41))),
    "chat-function-names": ("vllm", {"tools": [{**TOOL, "function": {"name": "a.b"}}]}),
    "chat-unique-functions": ("deepseek", {"tools": [TOOL, TOOL]}),
    "chat-speakers": ("openai", says({**USER, "name": "a b"})),
    "chat-stops": ("openai", {"stop": ["a", "b", "c", "d", "e"]}),
    "chat-parameters": (
        "openai",
        {"tools": [{**TOOL, "function": {**FUNCTION, "parameters": {}}}]},
    ),
    "chat-schema-name": ("openai", answers(name="a b", schema={"type": "object"})),
    "chat-strict-schema": ("azure", answers(name="a", strict=True, schema=OPEN)),
    "chat-json-word": ("deepseek", JSON_MODE),
    "chat-no-json-schema": ("deepseek", answers(name="a", schema=OPEN)),
    "chat-choice-tools": ("openai", {**says(USER), "tools": None, "parallel_tool_calls": True}),
    "chat-empty-tools": ("vllm", {"tools": []}),
    "chat-named-function": ("vllm", {"tool_choice": {**CHOICE, "function": {"name": "other"}}}),
    "chat-stream-options": ("vllm", {"stream_options": {"include_usage": True}}),
    "chat-top-logprobs": ("vllm", {"top_logprobs": 3}),
    "chat-ranges": ("openai", {"temperature": 3}),
    "chat-metadata": ("openai", {"metadata": {"a": "b" * 513}}),
    "chat-users": ("openai", {"user": "u" * 65}),
    "chat-content": ("openai", says(USER, {"role": "assistant", "content": None}, USER)),
    "chat-file-names": (
        "openai",
        says(
            {
                "role": "user",
                "content": [{"type": "file", "file": {"file_data": "data:application/pdf,AA"}}],
            }
        ),
    ),
    "chat-roles": ("deepseek", says({"role": "developer", "content": "Be kind."}, USER)),
    "chat-system-first": ("llama-cpp", says(USER, {"role": "system", "content": "Be kind."})),
    "chat-max-tokens": ("compatible", {"model": "gpt-5.5", "max_tokens": 9}),
    "chat-no-sampling": ("openai", {"model": "o3", "temperature": 0.5}),
    "chat-no-stop": ("openai", {"model": "gpt-5.5", "stop": ["END"]}),
    "chat-efforts": ("openai", {"model": "gpt-4o", "reasoning_effort": "low"}),
    "chat-functions-or-effort": ("openai", {"model": "gpt-5.5", "reasoning_effort": "low"}),
    "chat-functions-no-effort": ("openai", {"model": "gpt-5.6"}),
    "chat-kept-reasoning": ("moonshot", {"model": "kimi-k2.6"}),
    "chat-thinking-choice": ("dashscope", {"model": "qwen3.5-plus", "tool_choice": CHOICE}),
    "chat-xai-stop": ("xai", {"model": "grok-4.3", "stop": ["END"]}),
    "mistral-call-ids": ("mistral", says(USER, assistant(call("call_1")), result("call_1"))),
    "mistral-order": ("mistral", says(USER, assistant(call()), result(), USER)),
    "mistral-last-role": ("mistral", says(USER, {"role": "assistant", "content": "19"})),
    "mistral-results": ("mistral", says(USER, assistant(call()), USER)),
    "mistral-content": ("mistral", says(USER, {"role": "assistant", "content": ""}, USER)),
    "mistral-function-names": (
        "mistral",
        {"tools": [{**TOOL, "function": {**FUNCTION, "name": "a.b"}}]},
    ),
    "mistral-ranges": ("mistral", {"temperature": 1.6}),
}
