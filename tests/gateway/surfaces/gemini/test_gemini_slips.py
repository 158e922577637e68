"""Requests that are nearly right: the gateway does what was meant, and loses nothing."""

import json
from collections.abc import AsyncGenerator
from typing import cast

import httpx
import pytest

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.gemini.parse import parse_generate
from tests.gateway.backends.vendors.dialect import Json
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Provider, answers, provider

pytestmark = pytest.mark.anyio

KEY = "key-of-a-team-0123456789"
CONFIG = f"""
auth: {{mode: keys, keys: [{{name: team, key: {KEY}}}]}}
providers:
  - {{name: remote, adapter: openai, base_url: URL/v1, api_key: k-0123456789}}
models:
  - {{name: chat, backends: [{{provider: remote, model: m}}]}}
  - {{name: vectors, backends: [{{provider: remote, model: e}}]}}
  - {{name: "org/gpt:a", backends: [{{provider: remote, model: g}}]}}
  - {{name: "models/own", backends: [{{provider: remote, model: o}}]}}
"""
HI: Json = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
PIXEL = "iVBORw0KGgo="
PICTURE: Json = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
TOOLS: list[Json] = [{"functionDeclarations": [{"name": "w"}]}]
CALL: Json = {"functionCall": {"name": "w", "args": {"a": 1}}}
TURN: Json = {"role": "user", "parts": [{"text": "hi"}]}


class Rig:
    def __init__(self, server: Provider, gateway: Serving, web: httpx.AsyncClient) -> None:
        self.server, self.gateway, self.web = server, gateway, web

    async def post(self, path: str, body: Json = HI) -> httpx.Response:
        return await self.web.post(path, json=body, headers={"x-goog-api-key": KEY})

    async def chat(self, body: Json) -> httpx.Response:
        return await self.post("/v1beta/models/chat:generateContent", body)

    @property
    def sent(self) -> Json:
        return self.server.requests[-1].json

    @property
    def messages(self) -> list[Json]:
        return cast("list[Json]", self.sent["messages"])


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig, None]:
    async with (
        provider(answers) as server,
        serving(CONFIG.replace("URL", server.origin), tmp_path_factory.mktemp("run")) as up,
        httpx.AsyncClient(base_url=up.url, timeout=60) as web,
    ):
        yield Rig(server, up, web)


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("//v1beta/models/chat:generateContent", "m"),
        ("/v1beta//models/chat:generateContent/", "m"),
        ("/v1beta/v1beta/models/chat:generateContent", "m"),
        ("/v1/v1beta/models/chat:generateContent", "m"),
        ("/models/chat:generateContent", "m"),
        ("/v1beta/models/models/chat:generateContent", "m"),
        ("/v1beta/models/models%2Fchat:generateContent", "m"),
        ("/v1beta/models/own:generateContent", ""),
        ("/v1beta/models/models/own:generateContent", "o"),
        ("/v1beta/v1beta1/publishers/org/models/gpt:a:generateContent", "g"),
    ],
)
async def test_a_base_url_or_a_name_with_too_much_or_too_little_leads_to_the_model(
    rig: Rig, path: str, model: str
) -> None:
    answer = await rig.post(path)
    streamed = await rig.post(path.replace("generateC", "streamGenerateC") + "?alt=sse")

    if not model:
        assert answer.status_code == streamed.status_code == 404
        return
    assert (answer.status_code, streamed.status_code) == (200, 200), answer.text
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert rig.sent["model"] == model


@pytest.mark.parametrize(
    "path",
    [
        "//v1beta/models/chat:generateContent",
        "/v1/v1beta/models/chat:generateContent",
        "/models/chat:generateContent",
        "/gemini/v1beta/models/chat:generateContent",
    ],
)
async def test_a_key_in_the_query_is_taken_at_these_paths_too(rig: Rig, path: str) -> None:
    answer = await rig.web.post(f"{path}?key={KEY}", json=HI)

    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/v1beta/models/models/chat",
        "/v1beta/v1beta/models/chat",
        "/v1beta1/publishers/google/models/chat",
        "/v1beta1/publishers/org/models/gpt:a",
    ],
)
async def test_a_model_is_described_at_these_paths_too(rig: Rig, path: str) -> None:
    answer = await rig.web.get(path, headers={"x-goog-api-key": KEY})

    assert answer.status_code == 200, answer.text
    assert answer.json()["name"] in ("models/chat", "models/org/gpt:a")


async def test_googles_path_for_openais_api_is_openais_api(rig: Rig) -> None:
    body: Json = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
    headers = {"authorization": f"Bearer {KEY}"}
    answer = await rig.web.post("/v1beta/openai/chat/completions", json=body, headers=headers)
    models = await rig.web.get("/v1beta/openai/models", headers=headers)

    assert answer.json()["object"] == "chat.completion"
    assert "chat" in [one["id"] for one in models.json()["data"]]


@pytest.mark.parametrize("path", ["/upload/v1beta/files", "/models/chat:nothing", "/v1/v1beta/x"])
async def test_an_unknown_path_of_googles_clients_is_refused_in_googles_form(
    rig: Rig, path: str
) -> None:
    answer = await rig.post(path)

    assert (answer.status_code, answer.json()["error"]["status"]) == (404, "NOT_FOUND")


async def test_a_null_is_absent_wherever_it_is(rig: Rig) -> None:
    no = dict.fromkeys(("inlineData", "fileData", "functionCall", "functionResponse", "text"))
    image: Json = {"mimeType": "image/png", "data": PIXEL, "displayName": None}
    result: Json = {"name": "w", "id": None, "response": None, "parts": None}
    body: Json = {
        "contents": [
            {"role": "user", "parts": [{**no, "text": "hi"}, {**no, "inlineData": image}]},
            {"role": "model", "parts": [{**no, "functionCall": {"name": "w", "args": None}}]},
            {"role": "user", "parts": [{**no, "functionResponse": result}]},
            {"role": "model", "parts": None},
            TURN,
        ],
        "tools": [{"functionDeclarations": [{"name": "w", "parameters": None, "response": None}]}],
        "toolConfig": {"functionCallingConfig": None},
        "generationConfig": {"thinkingConfig": None, "responseSchema": None},
    }

    answer = await rig.chat(body)

    assert answer.status_code == 200, answer.text
    (call,) = cast("list[Json]", rig.messages[1]["tool_calls"])
    assert cast("Json", call["function"])["arguments"] == "{}"
    assert PIXEL in json.dumps(rig.messages[0])
    assert "x-gateway-dropped-params" not in answer.headers


@pytest.mark.parametrize(
    ("role", "part", "both"),
    [
        ("user", {"text": "hi", **PICTURE}, "text and inlineData"),
        ("model", {"text": "I call", **CALL}, "text and functionCall"),
        ("user", {**PICTURE, "fileData": {"fileUri": "https://a.test/b"}}, "inlineData and file"),
    ],
)
async def test_a_part_with_two_contents_is_refused_and_none_of_them_lost(
    rig: Rig, role: str, part: Json, both: str
) -> None:
    turn: Json = {"role": role, "parts": [{"text": "first"}, part]}

    answer = await rig.chat({"contents": [TURN, turn], "tools": TOOLS})

    error = answer.json()["error"]
    assert (answer.status_code, error["status"]) == (400, "INVALID_ARGUMENT")
    assert f"contents[1].parts[1] has {both}" in error["message"]
    assert "send two parts" in error["message"]


@pytest.mark.parametrize("more", [{"text": ""}, {"thought": True}], ids=["empty text", "thought"])
async def test_a_call_with_an_empty_text_or_marked_as_a_thought_is_a_call(
    rig: Rig, more: Json
) -> None:
    asked: Json = {"role": "model", "parts": [{**more, **CALL}]}
    result: Json = {"functionResponse": {"name": "w", "response": {"output": "sun"}}}

    answer = await rig.chat(
        {"contents": [TURN, asked, {"role": "user", "parts": [result]}], "tools": TOOLS}
    )

    assert answer.status_code == 200, answer.text
    (call,) = cast("list[Json]", rig.messages[1]["tool_calls"])
    assert (rig.messages[2]["tool_call_id"], rig.messages[2]["content"]) == (call["id"], "sun")


async def test_a_result_without_an_id_belongs_to_the_latest_call_of_its_name(rig: Rig) -> None:
    asked: Json = {"role": "model", "parts": [CALL]}
    result: Json = {"functionResponse": {"name": "w", "response": {"output": "sun"}}}

    await rig.chat(
        {
            "contents": [TURN, asked, TURN, asked, {"role": "user", "parts": [result]}],
            "tools": TOOLS,
        }
    )

    told = [one for one in rig.messages if one.get("content") == "sun"]
    (last,) = cast("list[Json]", rig.messages[-2]["tool_calls"])
    assert [one.get("tool_call_id") for one in told] == [last["id"]]


async def test_calls_in_one_turn_after_another_wait_for_their_results_together(rig: Rig) -> None:
    """As clients keep the pieces of a stream: each as a content of its own."""
    turns: list[Json] = [
        {"role": "model", "parts": [{"functionCall": {"name": "w", "args": {"n": at}}}]}
        for at in (0, 1)
    ]
    results: list[Json] = [
        {"functionResponse": {"name": "w", "response": {"output": f"of {at}"}}} for at in (0, 1)
    ]

    answer = await rig.chat(
        {"contents": [TURN, *turns, {"role": "user", "parts": results}], "tools": TOOLS}
    )

    assert answer.status_code == 200
    calls = [
        (one["id"], cast("Json", one["function"])["arguments"])
        for message in rig.messages
        for one in cast("list[Json]", message.get("tool_calls") or [])
    ]
    told = {one["tool_call_id"]: one["content"] for one in rig.messages if one["role"] == "tool"}
    assert [(told[id], arguments) for id, arguments in calls] == [
        ("of 0", '{"n":0}'),
        ("of 1", '{"n":1}'),
    ]


def test_a_conversation_of_many_calls_is_read_in_time_that_grows_with_its_size() -> None:
    """Ten thousand calls, and as many results that belong to none of them."""
    many = 10_000
    calls = [{"functionCall": {"name": f"w{at}"}} for at in range(many)]
    results = [{"functionResponse": {"name": "other"}} for _ in range(many)]
    turns = [{"role": "model", "parts": calls}, {"role": "user", "parts": results}]
    body = json.dumps({"contents": turns}).encode()

    read = parse_generate(Inbound(body=body, max_choices=1, model="m"), stream=False)

    assert len(read.messages) == many + 1


def test_thoughts_in_many_pieces_are_one_and_read_in_time_that_grows_with_their_size() -> None:
    """As clients keep a stream. A signature ends a thought."""
    pieces: list[Json] = [{"text": f"{at}", "thought": True} for at in range(10_000)]
    proven: Json = {"text": "so", "thought": True, "thoughtSignature": "cHJvb2Y="}
    turn: Json = {"role": "model", "parts": [*pieces, proven, *pieces[:2], {"text": "Yes."}]}
    body = json.dumps({"contents": [turn, TURN]}).encode()

    read = parse_generate(Inbound(body=body, max_choices=1, model="m"), stream=False)

    thoughts = [(one.text, one.signature) for one in read.messages[0].thoughts]
    assert thoughts == [
        ("".join(str(at) for at in range(10_000)), ""),
        ("so", "cHJvb2Y="),
        ("01", ""),
    ]


async def test_numbers_as_strings_are_numbers_everywhere(rig: Rig) -> None:
    thinking: Json = {"generationConfig": {"thinkingConfig": {"thinkingBudget": "8192"}}}
    thought = await rig.chat({**HI, **thinking})
    effort = rig.sent["reasoning_effort"]
    embedded = await rig.post(
        "/v1beta/models/vectors:embedContent",
        {"content": {"parts": [{"text": "a"}]}, "outputDimensionality": "64"},
    )

    assert (thought.status_code, effort) == (200, "medium")
    assert (embedded.status_code, rig.sent["dimensions"]) == (200, 64), embedded.text


async def test_what_only_google_embeds_by_is_left_out_elsewhere_and_named(rig: Rig) -> None:
    """LangChain's client sends a task with every text."""
    one: Json = {"content": {"parts": [{"text": "a"}]}, "taskType": "RETRIEVAL_QUERY"}
    answer = await rig.post("/v1beta/models/vectors:embedContent", {**one, "title": "A"})
    batch = await rig.post("/v1beta/models/vectors:batchEmbedContents", {"requests": [one, one]})

    assert (answer.status_code, batch.status_code) == (200, 200), answer.text
    assert answer.headers["x-gateway-dropped-params"] == "taskType, title"
    assert batch.headers["x-gateway-dropped-params"] == "taskType"
    assert not {"taskType", "title"} & set(rig.sent)


async def test_references_to_definitions_lead_to_them_in_a_json_schema(rig: Rig) -> None:
    schema: Json = {
        "type": "OBJECT",
        "properties": {"a": {"ref": "#/defs/A"}, "b": {"ref": "#/defs/A", "nullable": True}},
        "defs": {"A": {"type": "NUMBER", "format": "float"}},
    }
    config: Json = {"responseMimeType": "application/json", "responseSchema": schema}

    answer = await rig.chat({**HI, "generationConfig": config})

    assert answer.status_code == 200, answer.text
    form = cast("Json", cast("Json", rig.sent["response_format"])["json_schema"])
    assert form["schema"] == {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/A"},
            "b": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]},
        },
        "$defs": {"A": {"type": "number"}},
    }
