"""For each rule of Bedrock, what breaks it: members that differ from those of `ALLOWED`."""

from collections.abc import Mapping
from typing import Final

from tests.oracle.reading import Json

USER: Final[Json] = {"role": "user", "content": [{"text": "hi"}]}
CALL: Final[Json] = {"toolUse": {"toolUseId": "t1", "name": "look", "input": {}}}
RESULT: Final[Json] = {"toolResult": {"toolUseId": "t1", "content": [{"text": "19"}]}}
DOCUMENT: Final[Json] = {"name": "a b", "format": "pdf", "source": {"bytes": "AAAA"}}
POINT: Final[Json] = {"cachePoint": {"type": "default"}}


def tool(name: str = "look", **schema: object) -> Json:
    return {"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object", **schema}}}}


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def says(*turns: Json) -> Json:
    return {"messages": list(turns)}


ALLOWED: Final[Json] = {
    "model": "anthropic.claude-sonnet-4-5-v1:0",
    "system": [{"text": "Be kind."}],
    "messages": [USER, assistant(CALL), user(RESULT, {"text": "And?"}, {"document": DOCUMENT})],
    "toolConfig": {"tools": [tool(), POINT]},
    "inferenceConfig": {"maxTokens": 2000},
}

REFUSED: Final[Mapping[str, Json]] = {
    "bedrock-first-role": says(assistant({"text": "hi"}), USER),
    "bedrock-alternation": says(USER, USER),
    "bedrock-empty-message": says(user()),
    "bedrock-blank-text": says(user({"text": " "})),
    "bedrock-tools-defined": {"toolConfig": None},
    "bedrock-calls-answered": says(USER, assistant(CALL), USER),
    "bedrock-results-called": says(user(RESULT)),
    "bedrock-unique-tools": {"toolConfig": {"tools": [tool(), tool()]}},
    "bedrock-input-schema": {"toolConfig": {"tools": [tool(type="string")]}},
    "bedrock-claude-schema": {"toolConfig": {"tools": [tool(anyOf=[])]}},
    "bedrock-document-text": says(user({"document": DOCUMENT})),
    "bedrock-document-name": says(user({"text": "a"}, {"document": {**DOCUMENT, "name": "a  b"}})),
    "bedrock-cache-points": says(user({"text": "a"}, *[POINT] * 5)),
    "bedrock-betas": {"additionalModelRequestFields": {"anthropic_beta": ["oauth-2025-04-20"]}},
    "bedrock-no-prefill": {
        "model": "anthropic.claude-opus-4-6-v1",
        **says(USER, assistant({"text": "19"})),
    },
    "bedrock-claude-sampling": {"inferenceConfig": {"temperature": 0.5, "topP": 0.9}},
    "bedrock-thinking": {
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    },
}
