"""/openapi.json describes the parts of requests: what clients send is valid, and slips are not."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from jsonschema import Draft202012Validator, ValidationError

from tests.agents import messages_corpus, responses_corpus
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import answers, provider

pytestmark = pytest.mark.anyio

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}
PARAMETERS = {"type": "object", "properties": {"a": {"type": "string"}}}
CHAT: dict[str, Any] = {
    "model": "chat",
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}, PICTURE]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "12"}]},
        {"role": "user", "name": "ann", "content": "And now?"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": PARAMETERS}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "s", "strict": True, "schema": PARAMETERS},
    },
    "stream": False,
    "stream_options": None,
    "metadata": {"team": "a"},
}
MESSAGES: Mapping[str, Any] = {
    **messages_corpus.COMMON,
    "model": "chat",
    "max_tokens": 9,
    "system": list(messages_corpus.SYSTEM),
    "tools": list(messages_corpus.TOOLS),
    "tool_choice": {"type": "auto"},
    "messages": [
        {"role": "user", "content": list(messages_corpus.USER)},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "a"}]},
    ],
}
RESPONSES: Mapping[str, Any] = {
    **responses_corpus.COMMON,
    "model": "chat",
    "input": [
        responses_corpus.message("user", "Fix it."),
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "12"},
    ],
}
GEMINI: Mapping[str, Any] = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "Look."}]},
        {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "f", "args": {}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "c", "name": "f", "response": {"a": 1}}}],
        },
    ],
    "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": PARAMETERS}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    "generationConfig": {"temperature": 0, "maxOutputTokens": 9},
    "safetySettings": [],
}
REQUESTS = {
    "/v1/chat/completions": CHAT,
    "/serving-endpoints/chat/completions": {**CHAT, "metadata": None},
    "/v1/messages": MESSAGES,
    "/v1/responses": RESPONSES,
    "/v1beta/models/{model}:generateContent": GEMINI,
}
SLIPS: list[tuple[str, str, object]] = [
    ("/v1/chat/completions", "messages", []),
    ("/v1/chat/completions", "messages", [{"content": "hi"}]),
    ("/v1/chat/completions", "messages", [{"role": "usr", "content": "hi"}]),
    ("/v1/chat/completions", "messages", [{"role": "user", "content": 7}]),
    ("/v1/chat/completions", "messages", [{"role": "user", "content": [{"text": "hi"}]}]),
    ("/v1/chat/completions", "tools", [{"type": "function", "function": {}}]),
    ("/v1/chat/completions", "tool_choice", "always"),
    ("/v1/chat/completions", "response_format", "json"),
    ("/v1/messages", "messages", [{"role": "user", "content": [{"text": "hi"}]}]),
    ("/v1/messages", "tools", [{"description": "no name"}]),
    ("/v1/responses", "input", 7),
    ("/v1beta/models/{model}:generateContent", "contents", [{"parts": [{"text": 7}]}]),
    ("/v1beta/models/{model}:generateContent", "tools", 7),
    ("/v1/responses", "tools", [{"name": "f"}]),
]


@pytest.fixture(scope="module")
async def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("described")
    async with serving(one_model("http://127.0.0.1:9/v1"), folder) as up:
        async with httpx.AsyncClient(base_url=up.url, timeout=60) as client:
            return (await client.get("/openapi.json")).json()


def validator(document: dict[str, Any], path: str) -> Draft202012Validator:
    body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    return Draft202012Validator({**body["schema"], "components": document["components"]})


def check(document: dict[str, Any], path: str, body: object) -> None:
    sent = json.loads(json.dumps(body))  # as JSON has it: without tuples
    validator(document, path).validate(sent)  # pyright: ignore[reportUnknownMemberType]  # its stubs


def whole(path: str) -> dict[str, object]:
    """What asks for an answer that is not streamed, where the path does not say so."""
    return {} if path.startswith("/v1beta/") else {"stream": False}


@pytest.mark.parametrize("path", REQUESTS)
async def test_a_request_that_clients_send_is_valid_and_taken(
    document: dict[str, Any], tmp_path: Path, path: str
) -> None:
    body = {**REQUESTS[path], **whole(path)}

    async with (
        provider(answers) as remote,
        serving(one_model(remote.base_url), tmp_path) as up,
        httpx.AsyncClient(base_url=up.url, timeout=60) as client,
    ):
        answer = await client.post(path.replace("{model}", "chat"), json=body)

    assert answer.status_code == 200, answer.text
    check(document, path, body)


@pytest.mark.parametrize(("path", "field", "value"), SLIPS)
async def test_a_slip_is_invalid_and_refused(
    document: dict[str, Any], tmp_path: Path, path: str, field: str, value: object
) -> None:
    body = {**cast("Mapping[str, object]", REQUESTS[path]), field: value, **whole(path)}

    async with (
        provider(answers) as remote,
        serving(one_model(remote.base_url), tmp_path) as up,
        httpx.AsyncClient(base_url=up.url, timeout=60) as client,
    ):
        answer = await client.post(path.replace("{model}", "chat"), json=body)

    assert answer.status_code == 400, answer.text
    with pytest.raises(ValidationError):
        check(document, path, body)
