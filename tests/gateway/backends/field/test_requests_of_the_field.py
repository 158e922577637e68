"""Requests of clients as public reports of 2026 describe them (docs/field-log.md)."""

import base64
import json
import re
import struct
from collections.abc import AsyncGenerator

import pytest

from tests.gateway.backends.field.conversations import EMPTY, said, tool, with_calls
from tests.gateway.backends.field.desk import SURFACES, Desk, Json, Surface, desk

pytestmark = pytest.mark.anyio

to_each_api = pytest.mark.parametrize("surface", SURFACES)
HI = {surface: said(surface, ("user", "hi")) for surface in SURFACES}


@pytest.fixture(scope="module")
async def field(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Desk, None]:
    async with desk(tmp_path_factory.mktemp("run")) as found:
        yield found


async def sent_by(field: Desk, surface: Surface, model: str, body: Json) -> str:
    """The JSON that the vendor gets for a request, which is answered."""
    field.answers_as_usual()
    reply = await field.ask(surface, model, body)
    assert reply.status == 200, reply.body
    return field.sent_text


@to_each_api
async def test_ids_of_calls_have_nine_letters_and_digits_at_mistral(
    field: Desk, surface: Surface
) -> None:
    conversation = with_calls(surface, {"exec1774786568428215": "{}"})

    sent = await sent_by(field, surface, "mistral", conversation)

    made = re.findall(r'"(?:id|tool_call_id)": "(\w{9})"', sent)
    assert len(made) == 2
    assert made[0] == made[1]


SCHEMAS: dict[str, Json] = {
    "numbers in enum": {"v": {"type": "integer", "enum": [1, 2]}, "b": {"enum": ["x"]}},
    "references": {"a": {"type": "array", "items": {"$ref": "#/properties/h"}}, "h": EMPTY},
    "keywords": {
        "n": {"type": "number", "exclusiveMinimum": 0},
        "o": {"type": "object", "patternProperties": {"a": EMPTY}, "propertyNames": {}},
        "c": {"const": "k"},
        "m": {"type": ["string", "null"]},
    },
}


@pytest.mark.parametrize("properties", SCHEMAS.values(), ids=SCHEMAS)
@to_each_api
async def test_a_schema_reaches_gemini_in_the_field_that_takes_all_of_json_schema(
    field: Desk, surface: Surface, properties: Json
) -> None:
    schema: Json = {"type": "object", "properties": properties, "additionalProperties": False}

    sent = await sent_by(
        field, surface, "gemini", {**HI[surface], "tools": [tool(surface, "f", schema)]}
    )

    assert f'"parametersJsonSchema": {json.dumps(schema)}' in sent
    assert '"parameters"' not in sent


@to_each_api
async def test_calls_of_others_reach_gemini_with_a_signature_that_it_accepts(
    field: Desk, surface: Surface
) -> None:
    sent = await sent_by(field, surface, "gemini", with_calls(surface, {"toolu_1": "{}"}))

    assert '"thoughtSignature": "skip_thought_signature_validator"' in sent


@pytest.mark.parametrize("after", ["", "and now?"], ids=["alone", "with text"])
@to_each_api
async def test_results_of_parallel_calls_are_one_turn_at_gemini(
    field: Desk, surface: Surface, after: str
) -> None:
    calls = {f"c{i}": "{}" for i in range(3)}

    await sent_by(field, surface, "gemini", with_calls(surface, calls, after=after))

    turns = json.dumps(field.sent["contents"]).split('"role": ')
    assert [turn.count('"functionResponse"') for turn in turns if "functionResponse" in turn] == [3]


@pytest.mark.parametrize("model", ["gpt", "deepseek", "vllm", "siliconflow", "claude", "mistral"])
async def test_options_of_streams_are_sent_with_streams_only(field: Desk, model: str) -> None:
    asked: Json = {**HI["chat"], "stream_options": {"include_usage": True}}

    assert "stream_options" not in await sent_by(field, "chat", model, asked)


JSON_MODE = {
    "gemini": '"responseMimeType": "application/json"',
    "cohere": '"type": "json_object"',
    "ollama": '"format": "json"',
    "claude": "JSON",
}


@pytest.mark.parametrize("model", JSON_MODE)
@pytest.mark.parametrize("surface", ["chat", "responses"])
async def test_json_mode_reaches_every_vendor(field: Desk, model: str, surface: Surface) -> None:
    wanted: Json = {"type": "json_object"}
    field_of: dict[str, Json] = {
        "chat": {"response_format": wanted},
        "responses": {"text": {"format": wanted}},
    }

    sent = await sent_by(field, surface, model, {**HI[surface], **field_of[surface]})

    assert JSON_MODE[model] in sent


@pytest.mark.parametrize("model", ["gpt", "claude", "gemini", "claude-bedrock", "gpt-responses"])
@to_each_api
async def test_nul_characters_are_sent_and_answered(
    field: Desk, model: str, surface: Surface
) -> None:
    user: Json = {"metadata": {"user_id": "u\0"}} if surface == "messages" else {"user": "u\0"}

    sent = await sent_by(field, surface, model, {**said(surface, ("user", "a\0b")), **user})

    assert r"a\u0000b" in sent


@pytest.mark.parametrize("model", ["cerebras", "groq", "mistral"])
@to_each_api
async def test_reasoning_of_earlier_turns_is_kept_from_vendors_that_refuse_it(
    field: Desk, model: str, surface: Surface
) -> None:
    reasoning: Json = {"type": "reasoning", "id": "rs", "summary": [], "content": []}
    text: Json = {"type": "reasoning_text", "text": "hm"}
    thought: Json = {"type": "thinking", "thinking": "hm", "signature": "x"}
    a, b, c = [{"role": role, "content": role} for role in ("user", "assistant", "user")]
    turns: dict[str, Json] = {
        "chat": {"messages": [a, {**b, "reasoning_content": "hm"}, c]},
        "messages": {
            "messages": [a, {**b, "content": [thought, {"type": "text", "text": "b"}]}, c]
        },
        "responses": {"input": [a, {**reasoning, "content": [text]}, b, c]},
    }

    assert "reasoning_content" not in await sent_by(field, surface, model, turns[surface])


PATCH: Json = {
    "type": "custom",
    "name": "apply_patch",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/s"},
}


@pytest.mark.parametrize(
    "model", ["deepseek", "claude", "gemini", "claude-bedrock", "mistral", "vllm", "gpt"]
)
async def test_earlier_calls_of_custom_tools_reach_vendors_with_functions_only(
    field: Desk, model: str
) -> None:
    call: Json = {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch"}
    output: Json = {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}
    turns: list[Json] = [{"role": "user", "content": "x"}, {**call, "input": "*** Begin"}, output]

    sent = await sent_by(field, "responses", model, {"input": turns, "tools": [PATCH]})

    assert "*** Begin" in sent
    assert "done" in sent


@pytest.mark.parametrize("digits", ["2512292042121000001", "123456789012345678901234567890"])
@pytest.mark.parametrize(
    "model", ["claude", "claude-bedrock", "gemini", "gpt", "gpt-responses", "ollama", "cohere"]
)
@to_each_api
async def test_integers_of_arguments_results_and_schemas_are_not_rounded(
    field: Desk, model: str, surface: Surface, digits: str
) -> None:
    number = f'{{"id": {digits}}}'
    bounds: Json = {"type": "object", "properties": {"id": {"maximum": int(digits)}}}
    asked = with_calls(surface, {"c1": number}, results=[("c1", number)])

    await sent_by(field, surface, model, {**asked, "tools": [tool(surface, "f", bounds)]})

    assert field.server.requests[-1].body.decode().count(digits) == 3


EMPTY_ARGUMENTS = ("claude", "claude-bedrock", "gemini", "cohere", "ollama")


@pytest.mark.parametrize("arguments", ["", " "], ids=["empty", "blank"])
@pytest.mark.parametrize("model", EMPTY_ARGUMENTS)
@pytest.mark.parametrize("surface", ["chat", "responses"])
async def test_calls_without_arguments_reach_vendors_with_an_empty_object(
    field: Desk, model: str, surface: Surface, arguments: str
) -> None:
    sent = await sent_by(field, surface, model, with_calls(surface, {"c1": arguments}))

    assert any(part in sent for part in ('"input": {}', '"args": {}', '"arguments": {}', '"{}"'))


WITHOUT_TOOLS: list[tuple[Surface, Json]] = [
    ("chat", {"tool_choice": "auto"}),
    ("chat", {"tools": []}),
    ("chat", {"tools": [], "tool_choice": "auto"}),
    ("chat", {"tools": [], "tool_choice": "none", "parallel_tool_calls": True}),
    ("responses", {"tool_choice": "none"}),
    ("responses", {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}),
]


@pytest.mark.parametrize(("surface", "fields"), WITHOUT_TOOLS)
async def test_without_tools_nothing_about_tools_is_sent(
    field: Desk, surface: Surface, fields: Json
) -> None:
    for model in ("gpt", "deepseek", "claude", "claude-bedrock", "gemini", "mistral", "cohere"):
        sent = await sent_by(field, surface, model, {**HI[surface], **fields})

        assert "tool" not in sent, model


VECTORS: dict[str, Json] = {
    "gpt": {"data": [{"index": 0, "embedding": [0.5, 1.0]}]},
    "vllm": {"data": [{"index": 0, "embedding": [0.5, 1.0]}]},
    "mistral": {"data": [{"index": 0, "embedding": [0.5, 1.0]}]},
    "gemini": {"embeddings": [{"values": [0.5, 1.0]}]},
    "cohere": {"id": "1", "embeddings": {"float": [[0.5, 1.0]]}, "meta": {}},
    "ollama": {"model": "m", "embeddings": [[0.5, 1.0]]},
}


@pytest.mark.parametrize("model", VECTORS)
async def test_vectors_are_answered_in_base64_whatever_the_vendor_sends(
    field: Desk, model: str
) -> None:
    field.answers(VECTORS[model])
    body: Json = {"model": model, "input": ["a"], "encoding_format": "base64", "dimensions": None}

    answer = await field.web.post("/v1/embeddings", json=body)

    vector = base64.b64decode(answer.json()["data"][0]["embedding"])
    assert struct.unpack("<2f", vector) == (0.5, 1.0)
