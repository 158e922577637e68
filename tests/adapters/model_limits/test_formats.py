"""JSON is answered by vendors that have no schemas, or a JSON mode with conditions."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each, repairs
from tests.stand_ins.bedrock_server import call_starts, delta, ends, starts, stops, used, whole
from tests.stand_ins.provider import Answer, Behaviour, Received

pytestmark = pytest.mark.anyio

SCHEMA: Json = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
NAMED: Json = {"name": "x", "schema": SCHEMA, "strict": True}
BY_SCHEMA: dict[str, Json] = {
    "chat": {"response_format": {"type": "json_schema", "json_schema": NAMED}},
    "responses": {"text": {"format": {"type": "json_schema", **NAMED}}},
    "messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
}
ANY: dict[str, Json] = {
    "chat": {"response_format": {"type": "json_object"}},
    "responses": {"text": {"format": {"type": "json_object"}}},
}
SAID = "Answer in JSON."


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with one_of_each(
        tmp_path_factory.mktemp("formats"),
        *("openai", "openai-responses", "deepseek", "groq", "dashscope", "vllm", "bedrock"),
    ) as one:
        yield one


async def ask(rig: Rig, surface: str, model: str, **fields: object) -> httpx.Response:
    send = {"chat": rig.chat, "messages": rig.messages, "responses": rig.responses}[surface]
    answer = await send(model, **fields)
    assert answer.status_code == 200, answer.text
    return answer


def head(rig: Rig) -> Json:
    return cast("list[Json]", rig.sent.get("messages") or rig.sent["input"])[0]


@pytest.mark.parametrize("surface", BY_SCHEMA)
@pytest.mark.parametrize(
    "model",
    [
        "deepseek/deepseek-v4-pro",
        "groq/llama-3.3-70b-versatile",
        "openai/gpt-4-turbo",
        "openai/gpt-3.5-turbo",
    ],
)
async def test_a_vendor_without_schemas_gets_the_schema_in_words(
    rig: Rig, model: str, surface: str
) -> None:
    answer = await ask(rig, surface, model, **BY_SCHEMA[surface])

    assert rig.sent["response_format"] == {"type": "json_object"}
    said, _, schema = str(head(rig)["content"]).partition("\n")
    assert "JSON schema" in said
    assert json.loads(schema) == SCHEMA
    assert [one.rpartition(":")[2] for one in repairs(answer)] == ["described_schema"]


@pytest.mark.parametrize(
    "model", ["groq/openai/gpt-oss-120b", "openai/gpt-4.1", "vllm", "dashscope/qwen3.7-plus"]
)
async def test_a_vendor_with_schemas_gets_the_schema(rig: Rig, model: str) -> None:
    await ask(rig, "chat", model, **BY_SCHEMA["chat"])

    assert cast("Json", rig.sent["response_format"])["type"] == "json_schema"


async def test_a_schema_that_nothing_enforces_is_a_loss(tmp_path: Path) -> None:
    async with one_of_each(tmp_path, "deepseek", more=", on_repair: reject") as one:
        answer = await one.chat("deepseek", **BY_SCHEMA["chat"])

    assert answer.status_code == 400
    assert "described_schema" in answer.json()["error"]["message"]


WORDED = ("openai/gpt-4.1", "deepseek", "groq/openai/gpt-oss-120b", "dashscope", "openai-responses")


@pytest.mark.parametrize("surface", ANY)
@pytest.mark.parametrize("model", WORDED)
async def test_json_mode_is_asked_for_in_words_where_it_has_to_be(
    rig: Rig, model: str, surface: str
) -> None:
    answer = await ask(rig, surface, model, **ANY[surface])

    assert head(rig)["role"] == "system"
    assert SAID in json.dumps(head(rig)["content"])
    assert [one.rpartition(":")[2] for one in repairs(answer)] == ["json_word"]


@pytest.mark.parametrize("model", WORDED)
async def test_a_conversation_that_speaks_of_json_is_sent_as_it_is(rig: Rig, model: str) -> None:
    turns = [{"role": "user", "content": "Three colours, as Json please"}]
    answer = await ask(rig, "chat", model, messages=turns, **ANY["chat"])

    assert repairs(answer) == []


@pytest.mark.parametrize("model", ["openai/my-own-model", "vllm"])
async def test_other_servers_need_no_words(rig: Rig, model: str) -> None:
    answer = await ask(rig, "chat", model, **ANY["chat"])

    assert (repairs(answer), len(cast("list[Json]", rig.sent["messages"]))) == ([], 1)


async def test_the_words_are_in_the_first_system_message(rig: Rig) -> None:
    user = {"role": "user", "content": "u"}
    parts = [{"type": "text", "text": "Be brief."}]
    for content in ("Be brief.", parts):
        turns = [{"role": "system", "content": content, "name": "n"}, user]
        await ask(rig, "chat", "deepseek", messages=turns, **ANY["chat"])

        sent = cast("list[Json]", rig.sent["messages"])
        assert [one["role"] for one in sent] == ["system", "user"]
        assert json.dumps(sent[0]["content"]).count(SAID) == 1
        assert sent[0]["name"] == "n"


async def test_instructions_of_the_responses_api_do_not_count(rig: Rig) -> None:
    items = [{"type": "message", "role": "user", "content": "hi", "phase": "commentary"}]
    await ask(
        rig,
        "responses",
        "openai-responses",
        instructions="Use JSON.",
        input=items,
        **ANY["responses"],
    )

    sent = cast("list[Json]", rig.sent["input"])
    assert SAID in json.dumps(sent[0])
    assert sent[-1] == items[0], "the client's own items are sent as they are"


async def said_json(request: Received, answer: Answer) -> None:
    """Answer with a call of the last function that the request has."""
    config = cast("Json", request.json["toolConfig"])
    spec = cast("Json", cast("list[Json]", config["tools"])[-1]["toolSpec"])
    name = str(spec["name"])
    if not request.path.endswith("converse-stream"):
        await answer.json(whole("tool_use", used("t1", name, {"a": [1, 2]})))
        return
    frames = (
        starts(),
        call_starts(0, "t1", name),
        delta(0, {"toolUse": {"input": '{"a": '}}),
        delta(0, {"toolUse": {"input": "[1, 2]}"}}),
        stops(0),
        *ends("tool_use"),
    )
    await answer.body(b"".join(frames), "application/vnd.amazon.eventstream")


async def played(rig: Rig, behaviour: Behaviour, surface: str, **fields: object) -> httpx.Response:
    before, rig.vendor.behaviour = rig.vendor.behaviour, behaviour
    try:
        return await ask(rig, surface, "bedrock", **fields)
    finally:
        rig.vendor.behaviour = before


async def test_claude_at_bedrock_answers_in_json_by_a_call_that_the_client_does_not_see(
    rig: Rig,
) -> None:
    chat = (await played(rig, said_json, "chat", **ANY["chat"])).json()["choices"][0]
    config = cast("Json", rig.sent["toolConfig"])
    responses = await played(rig, said_json, "responses", **ANY["responses"])

    assert json.loads(chat["message"]["content"]) == {"a": [1, 2]}
    assert (chat["finish_reason"], chat["message"].get("tool_calls")) == ("stop", None)
    assert config["toolChoice"] == {"tool": {"name": "answer_in_json"}}
    assert "outputConfig" not in rig.sent
    (item,) = responses.json()["output"]
    assert json.loads(item["content"][0]["text"]) == {"a": [1, 2]}


async def test_the_json_is_streamed_as_text(rig: Rig) -> None:
    answer = await played(rig, said_json, "chat", stream=True, **ANY["chat"])

    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    choices = [one for line in lines for one in json.loads(line)["choices"]]
    text = "".join(one["delta"].get("content") or "" for one in choices)
    assert json.loads(text) == {"a": [1, 2]}
    assert [one["finish_reason"] for one in choices if one["finish_reason"]] == ["stop"]
    assert not any("tool_calls" in one["delta"] for one in choices)


def function(name: str) -> Json:
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA}}


async def called(request: Received, answer: Answer) -> None:
    await answer.json(whole("tool_use", used("t1", "answer_in_json", {"q": 1})))


async def test_functions_of_the_client_can_still_be_called(rig: Rig) -> None:
    """Also one that has the name of ours."""
    tools = [function("answer_in_json")]
    answer = await played(rig, called, "chat", tools=tools, **ANY["chat"])

    config = cast("Json", rig.sent["toolConfig"])
    names = [cast("Json", one["toolSpec"])["name"] for one in cast("list[Json]", config["tools"])]
    choice = answer.json()["choices"][0]
    assert names == ["answer_in_json", "answer_in_json_"]
    assert config["toolChoice"] == {"any": {}}
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "answer_in_json"


async def test_a_forced_function_is_called_instead(rig: Rig) -> None:
    tools = [function("f")]
    await ask(rig, "chat", "bedrock", tools=tools, tool_choice="required", **ANY["chat"])

    config = cast("Json", rig.sent["toolConfig"])
    assert (len(cast("list[Json]", config["tools"])), config["toolChoice"]) == (1, {"any": {}})


async def test_models_of_other_makers_at_bedrock_are_asked_in_words(rig: Rig) -> None:
    answer = await ask(rig, "chat", "bedrock/meta.llama4-maverick-17b-instruct-v1:0", **ANY["chat"])

    assert "JSON object" in json.dumps(rig.sent["system"])
    assert "toolConfig" not in rig.sent
    assert repairs(answer) == ["response_format:described_json"]
