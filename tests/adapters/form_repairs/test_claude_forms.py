"""Forms of images, documents, cache marks and schemas that Claude's services take."""

import json
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import (
    Json,
    Rig,
    dropped,
    one_of_each,
    repairs,
)

pytestmark = pytest.mark.anyio

ANTHROPIC = ["anthropic", "vertex-anthropic"]
VENDORS = [*ANTHROPIC, "bedrock"]
NOVA = "bedrock/amazon.nova-pro-v1:0"


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with one_of_each(tmp_path_factory.mktemp("forms"), *VENDORS) as one:
        yield one


def first_blocks(sent: Json) -> list[Json]:
    turns = cast("list[Mapping[str, list[Json]]]", sent["messages"])
    return turns[0]["content"]


JPEG, PNG, GIF = b"\xff\xd8\xff\xe0\x00\x10JFIF", b"\x89PNG\r\n\x1a\n\x00", b"GIF89a\x01\x00"
WEBP = b"RIFF\x24\x00\x00\x00WEBPVP8 "
IMAGES = [
    ("image/png", JPEG, "image/jpeg"),
    ("image/jpeg", PNG, "image/png"),
    ("image/jpeg", WEBP, "image/webp"),
    ("image/png", GIF, "image/gif"),
    ("application/octet-stream", PNG, "image/png"),
    ("image/png", b"unknown bytes", "image/png"),
    ("image/png", PNG, "image/png"),
]


@pytest.mark.parametrize(("named", "data", "sent"), IMAGES)
@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
@pytest.mark.parametrize("model", VENDORS)
async def test_an_image_is_named_by_its_bytes(
    rig: Rig, model: str, surface: str, named: str, data: bytes, sent: str
) -> None:
    encoded = b64encode(data).decode()
    url = f"data:{named};base64,{encoded}"
    if surface == "chat":
        part: Json = {"type": "image_url", "image_url": {"url": url}}
        answer = await rig.chat(model, messages=[{"role": "user", "content": [part]}])
    elif surface == "messages":
        source = {"type": "base64", "media_type": named, "data": encoded}
        part = {"type": "image", "source": source}
        answer = await rig.messages(model, messages=[{"role": "user", "content": [part]}])
    else:
        part = {"type": "input_image", "image_url": url}
        answer = await rig.responses(model, input=[{"role": "user", "content": [part]}])

    assert answer.status_code == 200, answer.text
    (block,) = first_blocks(rig.sent)
    source = cast("Json", block.get("source", block.get("image")))
    assert source.get("media_type", f"image/{source.get('format')}") == sent
    told = [one for one in repairs(answer) if one.endswith(":image_type")]
    assert len(told) == (named != sent)


def document(kind: str) -> Json:
    data = b64encode(b'{"a": 1}').decode()
    file = {"file_data": f"data:{kind};base64,{data}", "filename": "a"}
    return {"type": "file", "file": file}


@pytest.mark.parametrize(
    "kind", ["application/json", "text/x-python", "application/ld+json", "application/yaml"]
)
@pytest.mark.parametrize("model", VENDORS)
async def test_a_document_of_text_is_read_as_text(rig: Rig, model: str, kind: str) -> None:
    content = [document(kind), {"type": "text", "text": "What is it?"}]
    answer = await rig.chat(model, messages=[{"role": "user", "content": content}])

    assert answer.status_code == 200, answer.text
    block = first_blocks(rig.sent)[0]
    if model == "bedrock":
        assert cast("Json", block["document"])["format"] == "txt"
    else:
        source = {"type": "text", "media_type": "text/plain", "data": '{"a": 1}'}
        assert block["source"] == source


@pytest.mark.parametrize("surface", ["chat", "messages"])
@pytest.mark.parametrize("model", ["bedrock", NOVA])
async def test_bedrock_gets_text_beside_a_document(rig: Rig, model: str, surface: str) -> None:
    if surface == "chat":
        content: Sequence[Json] = [document("application/pdf")]
        answer = await rig.chat(model, messages=[{"role": "user", "content": content}])
    else:
        source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
        content = [{"type": "document", "source": source}]
        answer = await rig.messages(model, messages=[{"role": "user", "content": content}])

    assert answer.status_code == 200, answer.text
    assert [next(iter(one)) for one in first_blocks(rig.sent)] == ["document", "text"]
    assert any(one.endswith(":document_text") for one in repairs(answer))


MARK: Json = {"type": "ephemeral"}
LONG: Json = {"type": "ephemeral", "ttl": "1h"}


def marks(sent: object) -> list[Json]:
    """Return all marks in the order of the vendor: tools, system, messages."""
    if isinstance(sent, Mapping):
        fields = cast("Mapping[str, object]", sent)
        own = [fields[one] for one in ("cache_control", "cachePoint") if one in fields]
        order = ("toolConfig", "tools", "system", "messages", *sorted(fields))
        names = [one for one in dict.fromkeys(order) if one in fields]
        inner = [one for name in names for one in marks(fields[name])]
        return [*cast("list[Json]", own), *inner]
    if isinstance(sent, list):
        return [one for each in cast("list[object]", sent) for one in marks(each)]
    return []


def marked(text: str, mark: Json) -> Json:
    return {"type": "text", "text": text, "cache_control": mark}


@pytest.mark.parametrize("surface", ["chat", "messages"])
@pytest.mark.parametrize("model", VENDORS)
async def test_the_last_four_marks_of_a_cache_stay(rig: Rig, model: str, surface: str) -> None:
    turns = [{"role": "user", "content": [marked(str(place), MARK)]} for place in range(4)]
    system = [marked("Be brief.", MARK), marked("Be kind.", MARK)]
    if surface == "chat":
        answer = await rig.chat(model, messages=[{"role": "system", "content": system}, *turns])
    else:
        answer = await rig.messages(model, messages=turns, system=system)

    assert answer.status_code == 200, answer.text
    assert len(marks(rig.sent)) == 4
    assert len(marks(rig.sent["system"])) == 2
    assert "messages[].content[].cache_control:cache_marks" in repairs(answer)


@pytest.mark.parametrize("model", VENDORS)
async def test_a_long_mark_behind_a_short_one_is_short(rig: Rig, model: str) -> None:
    turns = [{"role": "user", "content": [marked("one", LONG), marked("two", LONG)]}]
    tool = {"name": "f", "input_schema": {"type": "object"}, "cache_control": MARK}
    answer = await rig.messages(model, messages=turns, tools=[tool])

    assert answer.status_code == 200, answer.text
    assert ["ttl" in one for one in marks(rig.sent)] == [False, False, False]
    assert "messages[].content[].cache_control:cache_order" in repairs(answer)


@pytest.mark.parametrize("model", ANTHROPIC)
async def test_marks_in_order_stay_as_they_are(rig: Rig, model: str) -> None:
    turns = [{"role": "user", "content": [marked("one", LONG), marked("two", MARK)]}]
    answer = await rig.messages(model, messages=turns)

    assert answer.status_code == 200, answer.text
    assert marks(rig.sent) == [LONG, MARK]
    assert repairs(answer) == []


@pytest.mark.vendor_refuses("schema", because="the scope needs a beta that the schema lacks")
async def test_only_anthropic_knows_the_scope_of_a_mark(rig: Rig) -> None:
    scoped = {**MARK, "scope": "global"}
    turns = [{"role": "user", "content": [marked("one", scoped)]}]
    own = await rig.messages("anthropic", messages=turns)
    assert (own.status_code, marks(rig.sent)) == (200, [scoped])

    other = await rig.messages("vertex-anthropic", messages=turns)
    assert (other.status_code, marks(rig.sent)) == (200, [MARK]), other.text
    assert "messages[].content[].cache_control:cache_members" in repairs(other)


EITHER: Json = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "anyOf": [
        {"required": ["a"]},
        {"properties": {"b": {"type": "string"}}, "required": ["b"]},
    ],
}
FLAT: Json = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
    "description": "Required are [a] or [b].",
}
ALL: Json = {
    "allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": {"type": "string"}}}],
    "$defs": {"base": {"properties": {"a": {"type": "string"}}, "required": ["a"]}},
}


def schemas(sent: Json) -> list[Json]:
    tools = cast("list[Json]", cast("Json", sent.get("toolConfig", sent))["tools"])
    found: list[Json] = []
    for one in tools:
        spec = cast("Mapping[str, Mapping[str, Json]]", one).get("toolSpec")
        found.append(cast("Json", one["input_schema"]) if spec is None else json_schema(spec))
    return found


def json_schema(spec: Mapping[str, Json]) -> Json:
    return cast("Json", spec["inputSchema"]["json"])


@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
@pytest.mark.parametrize("model", VENDORS)
async def test_alternatives_of_a_functions_parameters_are_one_object(
    rig: Rig, model: str, surface: str
) -> None:
    if surface == "chat":
        tool: Json = {"type": "function", "function": {"name": "f", "parameters": EITHER}}
        answer = await rig.chat(model, tools=[tool])
    elif surface == "messages":
        answer = await rig.messages(model, tools=[{"name": "f", "input_schema": EITHER}])
    else:
        tool = {"type": "function", "name": "f", "parameters": EITHER, "strict": False}
        answer = await rig.responses(model, tools=[tool])

    assert answer.status_code == 200, answer.text
    assert schemas(rig.sent) == [FLAT]
    assert any(one.endswith(":one_form") for one in repairs(answer))


@pytest.mark.parametrize("model", VENDORS)
async def test_parts_of_a_functions_parameters_are_one_object(rig: Rig, model: str) -> None:
    answer = await rig.messages(model, tools=[{"name": "f", "input_schema": ALL}])

    assert answer.status_code == 200, answer.text
    (schema,) = schemas(rig.sent)
    assert schema["properties"] == FLAT["properties"]
    assert (schema["type"], schema["required"]) == ("object", ["a"])


async def test_other_makers_models_get_the_alternatives(rig: Rig) -> None:
    answer = await rig.messages(NOVA, tools=[{"name": "f", "input_schema": EITHER}])

    assert (answer.status_code, schemas(rig.sent)) == (200, [EITHER]), answer.text


@pytest.mark.parametrize("model", ANTHROPIC)
async def test_a_choice_of_tools_goes_with_tools(rig: Rig, model: str) -> None:
    answer = await rig.messages(model, tool_choice={"type": "auto"})

    assert answer.status_code == 200, answer.text
    assert "tool_choice" not in rig.sent


FUNCTIONS = [{"type": "function", "function": {"name": name}} for name in ("f", "g")]
NAMED: Json = {"type": "function", "function": {"name": "g"}}


@pytest.mark.parametrize("choice", ["required", NAMED])
@pytest.mark.parametrize("maker", ["meta.llama3-3-70b-instruct-v1:0", "cohere.command-r-v1:0"])
async def test_a_model_that_cannot_be_forced_may_choose(
    rig: Rig, maker: str, choice: object
) -> None:
    answer = await rig.chat(f"bedrock/{maker}", tools=FUNCTIONS, tool_choice=choice)

    assert answer.status_code == 200, answer.text
    assert "toolChoice" not in cast("Json", rig.sent["toolConfig"])
    assert dropped(answer) == ["tool_choice"]


async def test_a_model_that_knows_no_names_is_offered_one_function(rig: Rig) -> None:
    model = "bedrock/mistral.mistral-large-2407-v1:0"
    answer = await rig.chat(model, tools=FUNCTIONS, tool_choice=NAMED)

    assert answer.status_code == 200, answer.text
    config = cast("Mapping[str, list[Mapping[str, Json]]]", rig.sent["toolConfig"])
    assert [one["toolSpec"]["name"] for one in config["tools"]] == ["g"]
    assert config["toolChoice"] == {"any": {}}
    assert repairs(answer) == ["tools:one_offered", "tool_choice:one_offered"]


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("openai.gpt-oss-120b-1:0", "none", {"reasoning_effort": "low"}),
        ("openai.gpt-oss-120b-1:0", "minimal", {"reasoning_effort": "low"}),
        ("openai.gpt-oss-120b-1:0", "max", {"reasoning_effort": "high"}),
        ("amazon.nova-2-lite-v1:0", "none", {"reasoningConfig": {"type": "disabled"}}),
        (
            "amazon.nova-2-lite-v1:0",
            "xhigh",
            {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}},
        ),
    ],
)
async def test_an_effort_is_one_that_the_maker_knows(
    rig: Rig, model: str, effort: str, sent: object
) -> None:
    answer = await rig.chat(f"bedrock/{model}", reasoning_effort=effort)

    assert answer.status_code == 200, answer.text
    assert rig.sent["additionalModelRequestFields"] == sent


@pytest.mark.parametrize(
    ("model", "body"),
    [
        ("anthropic/claude-opus-4-6", {"messages": [{"role": "assistant", "content": "Yes,"}]}),
        ("bedrock/meta.llama3-3-70b-instruct-v1:0", {"tools": FUNCTIONS, "tool_choice": NAMED}),
    ],
)
async def test_a_model_can_insist_on_what_would_be_lost(
    tmp_path_factory: pytest.TempPathFactory, model: str, body: Json
) -> None:
    folder = tmp_path_factory.mktemp("strict")
    async with one_of_each(folder, "anthropic", "bedrock", more=", on_repair: reject") as rig:
        answer = await rig.chat(model, **body)

    assert answer.status_code == 400
    assert json.loads(answer.text)["error"]["param"] in ("messages", "messages[]", "tool_choice")
