"""Each vendor's schema refuses members that it has not, values of other types, and gaps."""

import json

import pytest

from tests.oracle.examples import anthropic, bedrock, chat, gemini, others
from tests.oracle.reading import Json
from tests.oracle.schemas import schema_faults
from tests.oracle.sent import Api, Sent, read

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
CONVERSE = "/model/anthropic.claude-x/converse"
GEMINI = "/v1beta/models/m:generateContent"

FUNCTION_CALL: Json = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {}}}

REFUSED: dict[str, tuple[Api, str, str, Json, Json, str]] = {
    "chat-unknown": ("openai-chat", "openai", CHAT, chat.ALLOWED, {"top_k": 5}, "top_k"),
    "chat-nested": (
        "openai-chat",
        "azure",
        CHAT,
        chat.ALLOWED,
        {"messages": [{"role": "assistant", "content": "a", "reasoning_content": "b"}]},
        "messages.0.reasoning_content",
    ),
    "chat-type": (
        "openai-chat",
        "compatible",
        CHAT,
        chat.ALLOWED,
        {"messages": [{"role": "assistant", "tool_calls": [FUNCTION_CALL]}]},
        "messages.0.tool_calls.0.function.arguments",
    ),
    "chat-part": (
        "openai-chat",
        "openai",
        CHAT,
        chat.ALLOWED,
        {
            "messages": [
                {
                    "role": "tool",
                    "tool_call_id": "c",
                    "content": [{"type": "image_url", "image_url": {"url": "data:,"}}],
                }
            ]
        },
        "messages.0.content.0.type",
    ),
    "mistral-unknown": ("openai-chat", "mistral", CHAT, chat.ALLOWED, {"seed": 1}, "seed"),
    "mistral-value": (
        "openai-chat",
        "mistral",
        CHAT,
        chat.ALLOWED,
        {"service_tier": "default"},
        "service_tier",
    ),
    "messages-unknown": (
        "anthropic-messages",
        "anthropic",
        MESSAGES,
        anthropic.ALLOWED,
        {"seed": 1},
        "seed",
    ),
    "messages-media": (
        "anthropic-messages",
        "anthropic",
        MESSAGES,
        anthropic.ALLOWED,
        {
            "messages": [
                anthropic.user(
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/jpg", "data": ""},
                    }
                )
            ]
        },
        "messages.0.content.0.source.media_type",
    ),
    "messages-missing": (
        "anthropic-messages",
        "anthropic",
        MESSAGES,
        anthropic.ALLOWED,
        {"tools": [{"name": "look"}]},
        "tools.0.input_schema",
    ),
    "converse-pattern": (
        "bedrock-converse",
        "bedrock",
        CONVERSE,
        bedrock.ALLOWED,
        {"toolConfig": {"tools": [bedrock.tool("a.b")]}},
        "toolConfig.tools.0.toolSpec.name",
    ),
    "converse-union": (
        "bedrock-converse",
        "bedrock",
        CONVERSE,
        bedrock.ALLOWED,
        {"messages": [bedrock.user({"text": "a", **bedrock.POINT})]},
        "messages.0.content.0",
    ),
    "converse-range": (
        "bedrock-converse",
        "bedrock",
        CONVERSE,
        bedrock.ALLOWED,
        {"inferenceConfig": {"temperature": 1.5}},
        "inferenceConfig.temperature",
    ),
    "converse-blob": (
        "bedrock-converse",
        "bedrock",
        CONVERSE,
        bedrock.ALLOWED,
        {"messages": [bedrock.user({"document": {**bedrock.DOCUMENT, "source": {"bytes": "%"}}})]},
        "messages.0.content.0.document.source.bytes",
    ),
    "gemini-unknown": (
        "gemini-generate",
        "gemini",
        GEMINI,
        gemini.ALLOWED,
        {"generationConfig": {"frequency": 1}},
        "generationConfig.frequency",
    ),
    "gemini-value": (
        "gemini-generate",
        "gemini",
        GEMINI,
        gemini.ALLOWED,
        {"generationConfig": {"responseModalities": ["SMELL"]}},
        "generationConfig.responseModalities.0",
    ),
    "responses-role": (
        "openai-responses",
        "openai-responses",
        "/v1/responses",
        others.ALLOWED["openai-responses"],
        {"input": [{"type": "reasoning", "id": "rs_1"}]},
        "input.0.summary",
    ),
    "cohere-unknown": ("cohere-chat", "cohere", "/v2/chat", chat.ALLOWED, {"n": 2}, "n"),
    "ollama-type": (
        "ollama-chat",
        "ollama",
        "/api/chat",
        others.ALLOWED["ollama-chat"],
        {
            "messages": [
                {
                    "role": "assistant",
                    "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}],
                }
            ]
        },
        "messages.0.tool_calls.0.function.arguments",
    ),
    "tgi-unknown": (
        "tgi-generate",
        "tgi",
        "/generate",
        others.ALLOWED["tgi-generate"],
        {"max_tokens": 9},
        "max_tokens",
    ),
}


def sent(api: Api, vendor: str, path: str, *bodies: Json) -> Sent:
    merged = {name: value for body in bodies for name, value in body.items()}
    if path in (CONVERSE, GEMINI):
        merged.pop("model")
    return read(api, vendor, path, {}, json.dumps(merged).encode())


@pytest.mark.parametrize("name", REFUSED)
def test_a_schema_names_the_place(name: str) -> None:
    api, vendor, path, whole, change, place = REFUSED[name]
    assert place in [at for at, _ in schema_faults(sent(api, vendor, path, whole, change))]


def test_what_openai_takes_for_given_may_be_missing() -> None:
    tool = {name: value for name, value in others.TOOL.items() if name != "strict"}
    image = {"type": "input_image", "image_url": "data:,"}
    body: Json = {"model": "m", "tools": [tool], "input": [{"role": "user", "content": [image]}]}
    one = sent("openai-responses", "openai-responses", "/v1/responses", body)
    assert list(schema_faults(one)) == []


def test_a_compatible_server_may_have_members_of_its_own() -> None:
    one = sent("openai-chat", "compatible", CHAT, chat.ALLOWED, {"top_k": 5})
    assert list(schema_faults(one)) == []


def test_a_vendor_that_has_the_model_in_the_path_does_not_miss_it_in_the_body() -> None:
    body = json.dumps({name: v for name, v in chat.ALLOWED.items() if name != "model"}).encode()
    deployed = "/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21"
    one = read("openai-chat", "azure", deployed, {}, body)
    assert one.model == "gpt-4o"
    assert list(schema_faults(one)) == []
    bare = read("openai-chat", "azure", "/openai/v1/chat/completions", {}, body)
    assert [at for at, _ in schema_faults(bare)] == ["model"]


def test_a_beta_makes_its_members_known() -> None:
    body: Json = {**anthropic.ALLOWED, "context_management": {"edits": []}}
    raw = json.dumps(body).encode()
    assert [
        [
            at
            for at, _ in schema_faults(read("anthropic-messages", "anthropic", MESSAGES, head, raw))
        ]
        for head in ({}, {"anthropic-beta": "context-management-2025-06-27"})
    ] == [["context_management"], []]
