"""Ollama's own Python client in front of the gateway, and three vendors behind it."""

import json
import re
from base64 import b64decode
from collections.abc import AsyncGenerator
from typing import Any, cast

import httpx
import ollama
import pytest
from msgspec import Struct

from tests.gateway.surfaces.ollama.vendors import (
    BREAKS,
    PIXEL,
    REFUSES,
    TIMES,
    WAITS,
    WEATHER,
    Vendors,
    client_of,
    vendors,
)

pytestmark = pytest.mark.anyio

ASK: list[dict[str, Any]] = [{"role": "user", "content": "What is the weather?"}]
EVERY_VENDOR = pytest.mark.parametrize("model", ["gpt", "claude", "box"])
NANOSECONDS = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"


class Rig(Struct, frozen=True, kw_only=True, eq=False):
    at: Vendors
    client: Any
    web: httpx.AsyncClient

    def sent(self, vendor: str) -> dict[str, Any]:
        """The body of the last request that the vendor received."""
        return getattr(self.at, vendor).requests[-1].json


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig, None]:
    async with (
        vendors(tmp_path_factory.mktemp("run")) as at,
        httpx.AsyncClient(base_url=at.gateway.url, timeout=60) as web,
        client_of(at.gateway.url) as client,
    ):
        yield Rig(at=at, client=client, web=web)


@EVERY_VENDOR
async def test_a_chat_is_whole_or_streamed_and_counted(rig: Rig, model: str) -> None:
    whole = await rig.client.chat(model, ASK)
    parts = [one async for one in await rig.client.chat(model, ASK, stream=True)]

    assert whole.message.content
    assert "".join(one.message.content or "" for one in parts) == whole.message.content
    for last in (whole, parts[-1]):
        assert (last.done, last.done_reason) == (True, "stop")
        assert (last.prompt_eval_count or 0) > 0
        assert (last.eval_count or 0) > 0
        assert (last.total_duration or 0) > 0
        assert (last.eval_duration or 0) > 0
    assert [one.done for one in parts[:-1]] == [False] * (len(parts) - 1)


@EVERY_VENDOR
async def test_a_prompt_is_answered_and_its_context_continues_it(rig: Rig, model: str) -> None:
    first = await rig.client.generate(model, "My name is Ada.", system="Be short.")
    parts = [
        one
        async for one in await rig.client.generate(
            model, "What is my name?", context=first.context, stream=True
        )
    ]

    sent = rig.sent(model)
    turns = [one["content"] for one in sent["messages"] if one["role"] == "user"]
    assert "My name is Ada." in str(turns[0])
    assert "What is my name?" in str(turns[-1])
    assert "Be short." in json.dumps(sent)
    assert first.response in json.dumps(sent, ensure_ascii=False)
    assert "".join(one.response or "" for one in parts)
    assert len(parts[-1].context or ()) > len(first.context or ())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["gpt", "claude"])
async def test_tools_are_called_and_their_results_find_their_calls(
    rig: Rig, model: str, stream: bool
) -> None:
    tools = [ollama.Tool.model_validate(WEATHER)]
    if stream:
        asked = await rig.client.chat(model, ASK, tools=tools, stream=True)
        messages = [one.message async for one in asked]
        message = next(one for one in messages if one.tool_calls)
    else:
        message = (await rig.client.chat(model, ASK, tools=tools)).message
    calls = message.tool_calls or ()
    assert [one.function.arguments for one in calls] == [{"at": "Bern"}, {"at": "Basel"}]

    results = [
        {"role": "tool", "tool_name": "weather", "content": f"{one.function.arguments['at']}: 19"}
        for one in calls
    ]
    answer = await rig.client.chat(model, [*ASK, message, *results], tools=tools)

    sent = json.dumps(rig.sent(model))
    assert answer.message.content
    assert answer.done_reason == "stop"
    assert "Bern: 19" in sent
    assert "Basel: 19" in sent


async def test_results_without_ids_belong_to_the_calls_in_their_order(rig: Rig) -> None:
    calls = [{"function": {"name": "weather", "arguments": {"at": at}}} for at in ("A", "B")]
    results = [{"role": "tool", "tool_name": "weather", "content": f"of {at}"} for at in ("A", "B")]
    await rig.web.post(
        "/api/chat",
        json={
            "model": "gpt",
            "stream": False,
            "tools": [WEATHER],
            "messages": [*ASK, {"role": "assistant", "tool_calls": calls}, *results],
        },
    )

    _, turn, *found = rig.sent("gpt")["messages"]
    ids = [one["id"] for one in turn["tool_calls"]]
    assert len(set(ids)) == 2
    assert [(one["tool_call_id"], one["content"]) for one in found] == [
        (ids[0], "of A"),
        (ids[1], "of B"),
    ]


async def test_pictures_reach_a_backend_with_their_type(rig: Rig) -> None:
    picture = b64decode(PIXEL)
    await rig.client.chat("gpt", [{"role": "user", "content": "What?", "images": [picture]}])
    chatted = rig.sent("gpt")["messages"][0]["content"]
    await rig.client.generate("claude", "What?", images=[picture])
    prompted = rig.sent("claude")["messages"][0]["content"]
    await rig.client.generate("box", "What?", images=[picture])

    assert chatted[1]["image_url"]["url"] == f"data:image/png;base64,{PIXEL}"
    assert prompted[1]["source"] == {
        "type": "base64",
        "media_type": "image/png",
        "data": PIXEL,
    }
    assert rig.sent("box")["messages"][0]["images"] == [PIXEL]


async def test_options_become_the_vendors_parameters_and_the_rest_is_named(rig: Rig) -> None:
    options = {
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "stop": ["\n"],
        "num_predict": 40,
        "num_ctx": 8192,
        "mirostat": 1,
    }
    body = {"model": "gpt", "stream": False, "messages": ASK, "options": options}
    answer = await rig.web.post("/api/chat", json={**body, "keep_alive": "5m", "novel": 1})

    sent = rig.sent("gpt")
    assert (sent["temperature"], sent["top_p"], sent["seed"]) == (0.5, 0.9, 7)
    assert sent["stop"] == ["\n"]
    assert sent.get("max_tokens", sent.get("max_completion_tokens")) == 40
    dropped = answer.headers["x-gateway-dropped-params"].split(", ")
    assert set(dropped) == {"options.num_ctx", "options.mirostat", "keep_alive", "novel"}


async def test_a_number_that_only_ollama_knows_goes_to_its_servers_alone(rig: Rig) -> None:
    options = {"temperature": 3, "top_k": 0, "top_p": 0.5, "num_predict": -1, "seed": -1}
    body = {"stream": False, "messages": ASK, "options": options}
    elsewhere = await rig.web.post("/api/chat", json={"model": "gpt", **body})
    sent = rig.sent("gpt")
    await rig.web.post("/api/chat", json={"model": "box", **body})

    assert sent.keys().isdisjoint({"temperature", "top_k", "max_tokens", "seed"})
    assert sent["top_p"] == 0.5
    dropped = elsewhere.headers["x-gateway-dropped-params"].split(", ")
    assert set(dropped) == {"options.temperature", "options.top_k"}
    assert rig.sent("box")["options"] == {"temperature": 3, "top_k": 0, "top_p": 0.5}


async def test_an_ollama_server_gets_everything_that_the_operator_allows(rig: Rig) -> None:
    options = {"temperature": 0.5, "top_k": 0, "num_ctx": 8192, "mirostat": 1, "num_gpu": 2}
    body = {
        "model": "open",
        "stream": False,
        "messages": ASK,
        "options": options,
        "keep_alive": "5m",
        "think": True,
        "truncate": False,
        "format": {"type": "object"},
    }
    answer = await rig.web.post("/api/chat", json=body)

    sent = rig.sent("box")
    del options["num_gpu"]
    assert sent["options"] == options
    assert (sent["keep_alive"], sent["think"], sent["truncate"]) == ("5m", True, False)
    assert sent["format"] == {"type": "object"}
    assert "shift" not in sent, "the server's default is the client's"
    assert answer.headers["x-gateway-dropped-params"] == "options.num_gpu"


async def test_the_times_and_the_reasoning_of_an_ollama_server_are_passed_on(rig: Rig) -> None:
    parts = [one async for one in await rig.client.chat("box", ASK, think=True, stream=True)]
    whole = await rig.client.chat("box", ASK, think="high")

    assert parts[0].message.thinking == "Hm."
    assert whole.message.thinking == "Hm."
    for last in (parts[-1], whole):
        assert {name: last[name] for name in TIMES} == TIMES
    assert rig.sent("box")["think"] == "high"


async def test_reasoning_of_another_vendor_comes_as_thinking(rig: Rig) -> None:
    parts = [one async for one in await rig.client.chat("claude", ASK, think=True, stream=True)]

    assert "".join(one.message.thinking or "" for one in parts) == "I look it up."
    assert "".join(one.message.content or "" for one in parts)


async def test_a_schema_becomes_the_vendors_format(rig: Rig) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
    await rig.client.chat("gpt", ASK, format=schema)
    by_schema = rig.sent("gpt")["response_format"]
    await rig.client.generate("gpt", "a number, as JSON", format="json")

    assert by_schema["type"] == "json_schema"
    assert by_schema["json_schema"]["schema"] == schema
    assert rig.sent("gpt")["response_format"] == {"type": "json_object"}


async def test_texts_are_embedded_in_both_forms(rig: Rig) -> None:
    many = await rig.client.embed("nomic-embed-text", ["a", "b"], keep_alive=3)
    one = await rig.client.embeddings("nomic-embed-text", "a")
    own = await rig.client.embed("box", "a", truncate=True, dimensions=2)

    assert many.embeddings == [[0.5, -1.0], [0.5, -1.0]]
    assert (many.prompt_eval_count, many.model) == (7, "nomic-embed-text")
    assert one.embedding == [0.5, -1.0]
    assert (own.embeddings, own.total_duration) == ([[0.25, 1.0]], TIMES["total_duration"])
    assert rig.sent("box")["truncate"] is True


async def test_raw_prompts_suffixes_and_templates_are_completions(rig: Rig) -> None:
    raw = await rig.client.generate("gpt", "def f(", raw=True)
    sent = rig.sent("gpt")
    await rig.client.generate("box", "def f(", suffix="return 1", options={"temperature": 0})
    filled = rig.sent("box")
    await rig.client.generate("box", "hi", template="{{ .Prompt }}", system="Be.")
    templated = rig.sent("box")

    assert (raw.response, sent["prompt"], raw.context) == ("hello", "def f(", None)
    assert (filled["prompt"], filled["suffix"]) == ("def f(", "return 1")
    assert (templated["template"], templated["system"]) == ("{{ .Prompt }}", "Be.")
    assert "raw" not in templated
    with pytest.raises(ollama.ResponseError, match="template is not supported") as caught:
        await rig.client.generate("gpt", "hi", template="{{ .Prompt }}")
    assert caught.value.status_code == 400


async def test_the_context_of_a_server_goes_only_to_a_server(rig: Rig) -> None:
    await rig.client.generate("box", "and then?", context=[1, 2, 3])

    assert rig.sent("box")["context"] == [1, 2, 3]
    with pytest.raises(ollama.ResponseError, match="completion is not offered"):
        await rig.client.generate("claude", "and then?", context=[1, 2, 3])


async def test_a_model_is_loaded_and_unloaded_without_a_backend(rig: Rig) -> None:
    before = [len(one.requests) for one in (rig.at.gpt, rig.at.claude, rig.at.box)]

    loaded = await rig.client.generate("box", "")
    unloaded = await rig.client.generate("claude", "", keep_alive="0s")
    chat = await rig.client.chat("gpt", [], keep_alive=0)
    nothing = await rig.client.embed("nomic-embed-text", [])

    reasons = [(one.done, one.done_reason) for one in (loaded, unloaded, chat)]
    assert reasons == [(True, "load"), (True, "unload"), (True, "unload")]
    assert nothing.embeddings == []
    after = [len(one.requests) for one in (rig.at.gpt, rig.at.claude, rig.at.box)]
    assert after == before
    with pytest.raises(ollama.ResponseError, match="model 'nobody' not found"):
        await rig.client.generate("nobody", "")


@pytest.mark.parametrize("name", ["gpt", "gpt:latest", "box", "box:latest", "any/m-7:latest"])
async def test_a_name_may_have_the_default_tag_or_not(rig: Rig, name: str) -> None:
    answer = await rig.client.chat(name, ASK)

    assert answer.message.content
    if name.startswith("any/"):
        assert rig.sent("gpt")["model"] == "any/m-7"


async def test_errors_have_ollamas_form_before_and_in_a_stream(rig: Rig) -> None:
    with pytest.raises(ollama.ResponseError, match="model 'nope' not found") as missing:
        await rig.client.chat("nope", ASK)
    refused = await rig.web.post(
        "/api/chat", json={"model": "gpt", "messages": [{"role": "user", "content": REFUSES}]}
    )
    with pytest.raises(ollama.ResponseError) as broken:
        async for _ in await rig.client.chat(
            "gpt", [{"role": "user", "content": BREAKS}], stream=True
        ):
            pass

    assert missing.value.status_code == 404
    assert refused.status_code == 400
    assert list(refused.json()) == ["error"]
    assert "no such thing" in refused.json()["error"]
    assert broken.value.error


async def test_each_line_leaves_before_the_next_arrives(rig: Rig) -> None:
    asked = [{"role": "user", "content": WAITS}]
    seen: list[str] = []
    async for part in await rig.client.chat("gpt", asked, stream=True):
        seen.append(part.message.content)
        rig.at.read.set()

    assert seen == ["first", "second", ""]


async def test_lines_are_json_with_times_in_nanoseconds(rig: Rig) -> None:
    answer = await rig.web.post("/api/chat", json={"model": "gpt", "messages": ASK})

    lines = [cast("dict[str, str]", json.loads(one)) for one in answer.text.splitlines()]
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert len(lines) == 3
    for one in lines:
        assert one["model"] == "gpt"
        assert re.fullmatch(NANOSECONDS, one["created_at"])


@pytest.mark.parametrize(
    ("path", "body", "told"),
    cast(
        "list[tuple[str, dict[str, object], str]]",
        [
            ("chat", {"messages": [{"content": "x"}]}, "messages[0].role is required"),
            ("chat", {"messages": [{"role": "boss"}]}, 'messages[0].role must be "system"'),
            (
                "chat",
                {"messages": [{"role": "user", "images": ["§"]}]},
                "messages[0].images[0] must",
            ),
            ("chat", {"messages": ASK, "format": "xml"}, 'format must be "json" or a JSON schema'),
            ("chat", {"messages": ASK, "think": "hard"}, "think must be true, false"),
            (
                "chat",
                {"messages": ASK, "options": {"temperature": "x"}},
                "options.temperature must be",
            ),
            ("chat", {"messages": ASK, "tools": [{}]}, "tools[0].function is required"),
            ("generate", {"prompt": 1}, "prompt must be a string"),
            ("generate", {"prompt": "x", "context": ["a"]}, "context must be the list of integers"),
            (
                "generate",
                {"prompt": "x", "context": [5461831, 9, 1]},
                "context is not as the answer",
            ),
            ("embed", {"input": [1]}, "input[0] must be a string"),
            ("show", {"model": ""}, "model is required"),
        ],
    ),
)
async def test_a_bad_field_is_named(
    rig: Rig, path: str, body: dict[str, object], told: str
) -> None:
    answer = await rig.web.post(f"/api/{path}", json={"model": "gpt", **body})

    assert answer.status_code == 400
    assert told in answer.json()["error"]


async def test_a_body_of_any_type_is_read_as_json(rig: Rig) -> None:
    body = json.dumps({"model": "gpt", "prompt": "hi", "stream": False})
    for kind in ("application/x-www-form-urlencoded", "text/plain;charset=UTF-8"):
        answer = await rig.web.post("/api/generate", content=body, headers={"content-type": kind})
        assert answer.json()["response"] == "hello"
