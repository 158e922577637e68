"""Fields inside messages and tools have the client's names and places in headers and errors."""

from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Behaviour, Received, answers, provider

pytestmark = pytest.mark.anyio

Json = dict[str, object]

PNG = "iVBORw0KGgo="
SCHEMA: Json = {"type": "object", "properties": {}}


async def post(gateway: Serving, path: str, body: Json) -> httpx.Response:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        return await client.post(path, json={"model": "chat", **body})


def error(answer: httpx.Response) -> tuple[object, str]:
    found = cast("Json", answer.json()["error"])
    return found["param"], str(found["message"])


def messages(**more: object) -> Json:
    return {"max_tokens": 99, "messages": [{"role": "user", "content": "hi"}], **more}


def marked(mark: str, **block: object) -> Json:
    return {**block, mark: {"type": "ephemeral"}}


TEXT: Json = {"type": "text", "text": "hi"}
USE: Json = {"type": "tool_use", "id": "toolu_1", "name": "clock", "input": {}}
RESULT: Json = {"type": "tool_result", "tool_use_id": "toolu_1"}

DROPPED_MESSAGES: dict[str, Json] = {
    "system[].x_mark": messages(system=[marked("x_mark", **TEXT)]),
    "messages[].content[].x_mark": messages(
        messages=[{"role": "user", "content": [TEXT, marked("x_mark", **TEXT)]}]
    ),
    "messages[].content[].content[].x_mark": messages(
        messages=[
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [USE]},
            {"role": "user", "content": [{**RESULT, "content": [marked("x_mark", **TEXT)]}]},
        ]
    ),
    "messages[].content[].is_error": messages(
        messages=[
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [USE]},
            {"role": "user", "content": [{**RESULT, "is_error": True}]},
        ]
    ),
    "tools[].x_mark": messages(
        tools=[{"name": "clock", "input_schema": SCHEMA, "x_mark": 1}],
    ),
    "output_config.effort": messages(output_config={"effort": "high"}),
    "thinking": messages(thinking={"type": "enabled", "budget_tokens": 50}),
}

CALL: Json = {"type": "function_call", "call_id": "call_1", "name": "clock", "arguments": "{}"}
SAID: Json = {"type": "input_text", "text": "hi"}

DROPPED_RESPONSES: dict[str, Json] = {
    "input[].content[].x_mark": {"input": [{"role": "user", "content": [{**SAID, "x_mark": 1}]}]},
    "input[].output[].x_mark": {
        "input": [
            {"role": "user", "content": "hi"},
            CALL,
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": [{**SAID, "x_mark": 1}],
            },
        ]
    },
    "input[].x_mark": {"input": [{"role": "user", "content": "hi", "x_mark": 1}]},
    "tools[].x_mark": {
        "input": "hi",
        "tools": [{"type": "function", "name": "clock", "parameters": SCHEMA, "x_mark": 1}],
    },
    "reasoning.effort": {"input": "hi", "reasoning": {"effort": "high"}},
    "top_logprobs": {"input": "hi", "top_logprobs": 2},
    "include": {"input": "hi", "include": ["message.output_text.logprobs"]},
}


def lean(base_url: str) -> str:
    """A backend that gets little of what its API has."""
    config = one_model(base_url, model_more="    on_unsupported: drop")
    fields = '["*", reasoning_effort, logprobs, top_logprobs]'
    return config.replace(
        "adapter: openai", f"adapter: openai\n    client_fields: {{deny: {fields}}}"
    )


@pytest.mark.parametrize(
    ("path", "name", "body"),
    [
        *(("/v1/messages", name, body) for name, body in DROPPED_MESSAGES.items()),
        *(("/v1/responses", name, body) for name, body in DROPPED_RESPONSES.items()),
    ],
)
async def test_a_dropped_nested_field_has_the_clients_name(
    tmp_path: Path, path: str, name: str, body: Json
) -> None:
    async with (
        provider(answers) as server,
        serving(lean(server.base_url), tmp_path) as gateway,
    ):
        answer = await post(gateway, path, body)

    assert answer.status_code == 200, answer.text
    assert answer.headers["x-gateway-dropped-params"] == name


async def test_a_field_in_several_places_has_each_of_their_names(tmp_path: Path) -> None:
    body = messages(
        system=[marked("x_mark", **TEXT)],
        messages=[{"role": "user", "content": [marked("x_mark", **TEXT)]}],
    )
    async with (
        provider(answers) as server,
        serving(lean(server.base_url), tmp_path) as gateway,
    ):
        answer = await post(gateway, "/v1/messages", body)

    named = "system[].x_mark, messages[].content[].x_mark"
    assert answer.headers["x-gateway-dropped-params"] == named


async def test_a_field_of_chat_completions_that_the_client_sent_keeps_its_name(
    tmp_path: Path,
) -> None:
    async with (
        provider(answers) as server,
        serving(lean(server.base_url), tmp_path) as gateway,
    ):
        answer = await post(gateway, "/v1/responses", {"input": "hi", "max_tokens": 9})

    assert answer.headers["x-gateway-dropped-params"] == "max_tokens"


THINKING: Json = {"type": "thinking", "thinking": "Hm.", "signature": ""}
IMAGE: Json = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PNG},
}
MESSAGES: Json = messages(
    system="Be brief.",
    messages=[
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [
                THINKING,
                TEXT,
                TEXT,
                USE,
                {**USE, "id": "toolu_2"},
            ],
        },
        {
            "role": "user",
            "content": [
                {**RESULT, "content": [TEXT, IMAGE]},
                {**RESULT, "tool_use_id": "toolu_2", "content": "noon"},
                TEXT,
                IMAGE,
            ],
        },
    ],
    tools=[{"name": "clock", "input_schema": SCHEMA}],
    output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
)
PICTURE: Json = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
RESPONSES: Json = {
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": [SAID, PICTURE]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}],
        },
        CALL,
        {"type": "function_call_output", "call_id": "call_1", "output": [SAID, PICTURE]},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "c"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "So."}]},
        {"role": "user", "content": "hi"},
    ],
    "tools": [
        {"type": "function", "name": "clock", "parameters": SCHEMA},
        {
            "type": "namespace",
            "name": "files",
            "tools": [
                {"type": "function", "name": "look", "parameters": SCHEMA},
                {"type": "function", "name": "read", "parameters": SCHEMA},
            ],
        },
    ],
    "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA, "strict": True}},
}


def rejecting(param: str) -> Behaviour:
    async def behave(request: Received, answer: Answer) -> None:
        told: Json = {"message": "too odd", "type": "invalid_request_error", "param": param}
        await answer.json({"error": told}, 400)

    return behave


@pytest.mark.parametrize(
    ("path", "body", "theirs", "ours"),
    [
        *(
            ("/v1/messages", MESSAGES, theirs, ours)
            for theirs, ours in {
                "messages[0].content": "system",
                "messages[1].content": "messages[0].content",
                "messages[2].content[1].text": "messages[1].content[2].text",
                "messages[2].tool_calls[1].function.arguments": "messages[1].content[4].input",
                "messages[2].tool_calls": "messages[1].content[]",
                "messages[3].tool_call_id": "messages[2].content[0].tool_use_id",
                "messages[4].content": "messages[2].content[1].content",
                "messages[5].content[1].image_url.url": "messages[2].content[0].content[1].source",
                "messages[5].content[3].image_url": "messages[2].content[3].source",
                "messages[5].content[0].text": "messages[2].content[].text",
                "messages.5.content.3.image_url": "messages[2].content[3].source",
                "messages[5].role": "messages[2].role",
                "messages[9].content": "messages[].content",
                "tools[0].function.parameters": "tools[0].input_schema",
                "response_format.json_schema.schema": "output_config.format.schema",
            }.items()
        ),
        *(
            ("/v1/responses", RESPONSES, theirs, ours)
            for theirs, ours in {
                "messages[0].content": "instructions",
                "messages[1].content[1].image_url.url": "input[0].content[1].image_url",
                "messages[1].content[1].image_url.detail": "input[0].content[1].detail",
                "messages[2].content[1].text": "input[2].content[1].text",
                "messages[2].tool_calls[0].function.arguments": "input[3].arguments",
                "messages[3].tool_call_id": "input[4].call_id",
                "messages[4].content[1].image_url": "input[4].output[1].image_url",
                "messages[4].content[2].text": "input[5].content",
                "messages[4].content": "input[5].content",
                "messages[6].content": "input[8].content",
                "tools[0].function.parameters": "tools[0].parameters",
                "tools[2].function.name": "tools[1].tools[1].name",
                "response_format.json_schema.strict": "text.format.strict",
                "input[1].content": "input[].content",
            }.items()
        ),
    ],
)
async def test_a_rejected_nested_field_has_the_clients_path(
    tmp_path: Path, path: str, body: Json, theirs: str, ours: str
) -> None:
    async with (
        provider(rejecting(theirs)) as server,
        serving(one_model(server.base_url), tmp_path) as gateway,
    ):
        answer = await post(gateway, path, body)

    assert answer.status_code == 400, answer.text
    assert error(answer)[0] == ours


INSTRUCTED = """
experiments:
  - name: kindness
    model: chat
    primary: error
    variants:
      - {name: control, backend: remote/m-1, weight: 1, set: {system: Be kind.}}
      - {name: other, backend: remote/m-2, weight: 1, set: {system: Be brief.}}
"""


@pytest.mark.parametrize(
    ("system", "theirs", "ours"),
    [
        (None, "messages[1].content", "messages[0].content"),
        ([TEXT, TEXT], "messages[0].content[2].text", "system[1].text"),
        ([TEXT, TEXT], "messages[1].content", "messages[0].content"),
    ],
)
async def test_the_operators_instructions_do_not_shift_the_clients_path(
    tmp_path: Path, system: object, theirs: str, ours: str
) -> None:
    body = messages() if system is None else messages(system=system)
    async with provider(rejecting(theirs)) as server:
        config = one_model(server.base_url, INSTRUCTED).replace(
            "model: m-1}]", "model: m-1}, {provider: remote, model: m-2}]"
        )
        async with serving(config, tmp_path) as gateway:
            answer = await post(gateway, "/v1/messages", body)

    assert error(answer)[0] == ours


@pytest.mark.parametrize(
    ("adapter", "path", "body", "named"),
    [
        (
            "openai-responses",
            "/v1/messages",
            messages(
                system="Be brief.",
                messages=[
                    {"role": "user", "content": "hi"},
                    {"role": "assistant", "content": [THINKING, TEXT, IMAGE]},
                    {"role": "user", "content": "hi"},
                ],
            ),
            "messages[1].content[2]",
        ),
    ],
)
async def test_what_a_backend_cannot_encode_is_told_in_the_clients_words(
    tmp_path: Path, adapter: str, path: str, body: Json, named: str
) -> None:
    config = one_model("http://127.0.0.1:9").replace("adapter: openai", f"adapter: {adapter}")
    async with serving(config, tmp_path) as gateway:
        answer = await post(gateway, path, body)

    param, told = error(answer)
    assert answer.status_code == 400, answer.text
    assert param == named
    assert told.startswith(f"{named}: "), told
    assert "image_url" not in told


async def test_what_no_client_may_send_is_told_in_the_clients_words(tmp_path: Path) -> None:
    source = {"type": "url", "url": "https://example.com/a.pdf"}
    document = {"type": "document", "source": source}
    body = messages(messages=[{"role": "user", "content": [TEXT, document]}])
    config = one_model("http://127.0.0.1:9").replace("adapter: openai", "adapter: gemini")
    async with serving(config, tmp_path) as gateway:
        answer = await post(gateway, "/v1/messages", body)

    param, told = error(answer)
    assert answer.status_code == 403, answer.text
    assert param == "messages[].content[].source.url"
    assert told.startswith("remote/m-1: messages[].content[].source.url is not forwarded"), told
