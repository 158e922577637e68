"""For each rule of other APIs, the API and what breaks the rule, beside the API's `ALLOWED`."""

from collections.abc import Mapping
from typing import Final

from tests.oracle.examples import chat
from tests.oracle.reading import Json
from tests.oracle.sent import Api

CALL: Final[Json] = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
OUTPUT: Final[Json] = {"type": "function_call_output", "call_id": "c1", "output": "19"}
ASKS: Final[Json] = {"role": "user", "content": "hi"}
THOUGHT: Final[Json] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "AA"}
PARAMETERS: Final[Json] = {"type": "object", "properties": {}}
TOOL: Final[Json] = {
    "type": "function",
    "name": "look",
    "strict": False,
    "parameters": PARAMETERS,
}
OPEN: Final[Json] = {"type": "object", "properties": {"a": {"type": "string"}}}
JSON_MODE: Final[Json] = {"format": {"type": "json_object"}}

ALLOWED: Final[Mapping[Api, Json]] = {
    "openai-responses": {
        "model": "m",
        "input": [ASKS, THOUGHT, CALL, OUTPUT],
        "tools": [TOOL],
        "max_output_tokens": 16,
    },
    "cohere-chat": chat.ALLOWED,
    "cohere-embed": {"model": "m", "input_type": "search_query", "texts": ["a"]},
    "openai-embeddings": {"model": "m", "input": ["a"]},
    "tgi-generate": {"inputs": "a", "parameters": {"temperature": 0.5}},
    "ollama-chat": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
}


def takes(*items: Json) -> Json:
    return {"input": list(items)}


REFUSED: Final[Mapping[str, tuple[Api, Json]]] = {
    "responses-outputs-called": ("openai-responses", takes(ASKS, OUTPUT)),
    "responses-calls-answered": ("openai-responses", takes(ASKS, CALL)),
    "responses-single-outputs": ("openai-responses", takes(ASKS, CALL, OUTPUT, OUTPUT)),
    "responses-item-ids": ("openai-responses", takes(ASKS, {**CALL, "id": "call_1"}, OUTPUT)),
    "responses-call-ids": (
        "openai-responses",
        takes(ASKS, {**CALL, "call_id": "c" * 65}, {**OUTPUT, "call_id": "c" * 65}),
    ),
    "responses-reasoning-followed": ("openai-responses", takes(THOUGHT, ASKS)),
    "responses-parts": (
        "openai-responses",
        takes({"role": "assistant", "content": [{"type": "input_text", "text": "hi"}]}, ASKS),
    ),
    "responses-limit": ("openai-responses", {"max_output_tokens": 15}),
    "responses-function-names": ("openai-responses", {"tools": [{**TOOL, "name": "a.b"}]}),
    "responses-unique-functions": ("openai-responses", {"tools": [TOOL, TOOL]}),
    "responses-parameters": ("openai-responses", {"tools": [{**TOOL, "parameters": {}}]}),
    "responses-strict-schema": (
        "openai-responses",
        {"tools": [{**TOOL, "strict": True, "parameters": OPEN}]},
    ),
    "responses-choice-tools": ("openai-responses", {"tools": [], "tool_choice": "auto"}),
    "responses-ranges": ("openai-responses", {"temperature": 3}),
    "responses-file-names": (
        "openai-responses",
        takes({"role": "user", "content": [{"type": "input_file", "file_data": "data:,a"}]}),
    ),
    "responses-json-word": ("openai-responses", {"text": JSON_MODE, **takes(ASKS)}),
    "responses-own-reasoning": (
        "openai-responses",
        takes(ASKS, {**THOUGHT, "encrypted_content": "anthropic-claude-v1:AA"}, CALL, OUTPUT),
    ),
    "cohere-results-called": ("cohere-chat", chat.says(chat.USER, chat.result())),
    "cohere-calls-answered": ("cohere-chat", chat.says(chat.USER, chat.assistant(chat.call()))),
    "cohere-content": ("cohere-chat", chat.says({"role": "user", "content": ""})),
    "cohere-ranges": ("cohere-chat", {"temperature": 1.5}),
    "cohere-embeds": ("cohere-embed", {"texts": ["a"] * 97}),
    "openai-embeds": ("openai-embeddings", {"input": ["a", ""]}),
    "tgi-stops": ("tgi-generate", {"parameters": {"stop": ["a", "b", "c", "d", "e"]}}),
    "tgi-ranges": ("tgi-generate", {"parameters": {"temperature": 0.0}}),
    "ollama-roles": ("ollama-chat", chat.says({"role": "developer", "content": "hi"})),
}
