"""Anthropic's own client, and Anthropic's Messages API behind the gateway."""

import json
from collections.abc import AsyncGenerator
from hashlib import sha256
from pathlib import Path
from typing import cast

import anthropic
import httpx
import msgspec
import pytest
from anthropic.types import Message, MessageParam
from msgspec import Raw

from tests.gateway.surfaces.anthropic.claude import (
    BEHIND_CLAUDE,
    HELLO,
    WEATHER,
    ClaudeSetting,
    Json,
    claude_in_front_of,
    returned,
)
from tests.stand_ins.anthropic_server import (
    ANSWER,
    BUSY,
    LIMIT,
    LONG,
    PLACES,
    REFUSE,
    THOUGHT,
    messages_api,
    proof,
)
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio

TEXT, THINKING = "".join(ANSWER), "".join(THOUGHT)
_fields = msgspec.json.Decoder(dict[str, Raw])

SPACED = b"""{
  "model": "chat", "max_tokens" : 2000,
  "system": [ {"type":"text", "text":"You are \\u00fcber-kind.",
               "cache_control": {"type": "ephemeral", "ttl": "1h"}} ],
  "tools": [ {"name": "weather", "input_schema": {"type":"object" , "properties": {"b":1.50}},
              "cache_control": {"type": "ephemeral", "ttl":"1h"}, "defer_loading": false} ],
  "tool_choice": {"disable_parallel_tool_use":true, "type":"auto"},
  "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "summarized"},
  "output_config": { "effort": "low" },
  "metadata": { "user_id": "u-1" },
  "messages": [
    {"role": "user", "content": [ {"type":"text","text":"hi",
                                   "cache_control": {"type": "ephemeral"}} ]},
    {"content": [ {"type":"thinking","thinking":"Hm.","signature":"%s"},
                  {"type":"tool_use","id":"t1","name":"weather","input": {"at" : 1.0} } ],
     "role": "assistant"},
    {"role": "user", "content": [ {"type":"tool_result","tool_use_id":"t1","is_error":true,
       "content": [ {"type": "text", "text":"no such place"} ],
       "cache_control": {"type": "ephemeral"} } ]}
  ]
}""" % proof("Hm.").encode()  # fmt: skip


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncGenerator[ClaudeSetting, None]:
    async with claude_in_front_of(messages_api, BEHIND_CLAUDE, tmp_path) as one:
        yield one


async def ask(setting: ClaudeSetting, *, stream: bool, text: str = "hi", **more: object) -> Message:
    create = cast("Json", {"model": "chat", "max_tokens": 2000, **more})
    said: list[MessageParam] = [{"role": "user", "content": text}]
    messages = cast("list[MessageParam]", create.pop("messages", said))
    if not stream:
        return await setting.client.messages.create(messages=messages, **create)  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownVariableType]  as a test writes it
    async with setting.client.messages.stream(messages=messages, **create) as events:  # pyright: ignore[reportArgumentType]  as a test writes it
        return await events.get_final_message()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_plain_question_is_answered(setting: ClaudeSetting, stream: bool) -> None:
    answer = await ask(setting, stream=stream)

    assert [one.to_dict() for one in answer.content] == [{"type": "text", "text": TEXT}]
    assert (answer.stop_reason, answer.stop_sequence) == ("end_turn", None)
    assert answer.model == "claude-opus-4-6"
    usage = answer.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (11, 100, 5)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_loop_with_thinking_goes_on_for_two_turns(
    setting: ClaudeSetting, stream: bool
) -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    asked = await ask(setting, stream=stream, tools=[WEATHER], thinking=thinking)
    calls = [one for one in asked.content if one.type == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": one.id, "content": "19"} for one in calls]
    turns = [HELLO, returned(asked), {"role": "user", "content": results}]
    answer = await ask(setting, stream=stream, tools=[WEATHER], thinking=thinking, messages=turns)

    assert asked.stop_reason == "tool_use"
    assert [one.type for one in asked.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert asked.content[0].to_dict()["signature"] == proof(THINKING)
    assert [one.input for one in calls] == [{"at": place} for place in PLACES]
    assert answer.content[-1].to_dict() == {"type": "text", "text": TEXT}
    assert setting.sent()["messages"] == json.loads(json.dumps(turns))


@pytest.mark.parametrize("stream", [b"", b', "stream": true'])
async def test_what_a_vendor_caches_arrives_byte_by_byte(
    setting: ClaudeSetting, stream: bytes
) -> None:
    body = SPACED.rstrip(b"}") + stream + b"}"
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(f"{setting.gateway.url}/v1/messages", content=body)

    sent, received = _fields.decode(body), _fields.decode(setting.server.requests[-1].body)
    assert answer.status_code == 200, answer.text
    assert "x-gateway-dropped-params" not in answer.headers
    cached = sent.keys() - {"model", "max_tokens", "stream"}
    for name in cached:
        assert sha256(received[name]).digest() == sha256(sent[name]).digest(), name
    assert received.keys() == sent.keys()


async def test_only_what_has_to_change_is_written_anew(tmp_path: Path) -> None:
    config = BEHIND_CLAUDE + "    overrides: {{reasoning_effort: high, max_tokens: 3000}}\n"
    async with claude_in_front_of(messages_api, config, tmp_path) as setting:
        async with httpx.AsyncClient(timeout=60) as client:
            await client.post(f"{setting.gateway.url}/v1/messages", content=SPACED)

        sent, received = _fields.decode(SPACED), _fields.decode(setting.server.requests[-1].body)
    assert received["max_tokens"] == Raw(b"3000")
    assert setting.sent()["output_config"] == {"effort": "high"}
    assert setting.sent()["thinking"] == {"type": "adaptive"}
    for name in ("system", "messages", "tools", "tool_choice", "metadata"):
        assert received[name] == sent[name]


async def test_a_stream_has_the_vendors_events_in_its_order(setting: ClaudeSetting) -> None:
    stream = await setting.client.messages.create(
        model="chat", max_tokens=9, messages=[HELLO], tools=[WEATHER], stream=True
    )
    kinds = [event.type async for event in stream]

    block = ["content_block_start", "content_block_delta", "content_block_delta"]
    assert kinds == [
        "message_start",
        *[*block, "content_block_stop"] * 3,
        "message_delta",
        "message_stop",
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_keeps_its_explanation(setting: ClaudeSetting, stream: bool) -> None:
    answer = await ask(setting, stream=stream, text=REFUSE)

    assert (answer.stop_reason, answer.content) == ("refusal", [])
    assert answer.stop_details is not None
    assert answer.stop_details.explanation == "No malware."


@pytest.mark.parametrize(
    ("word", "kind", "name"),
    [
        (BUSY, anthropic._exceptions.OverloadedError, "overloaded_error"),  # pyright: ignore[reportPrivateUsage]  not exported
        (LIMIT, anthropic.RateLimitError, "rate_limit_error"),
        (LONG, anthropic.BadRequestError, "invalid_request_error"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_vendors_error_is_the_clients_own(
    setting: ClaudeSetting, word: str, kind: type[anthropic.APIStatusError], name: str, stream: bool
) -> None:
    with pytest.raises(kind) as caught:
        await ask(setting, stream=stream, text=word)

    body = cast("Json", caught.value.body)
    line = setting.gateway.access_lines()[-1]
    assert caught.value.type == name
    assert body["type"] == "error"
    assert body["request_id"] == caught.value.request_id == line.request_id
    assert line.surface == "anthropic"
    assert line.status == caught.value.status_code


async def test_a_clients_beta_header_follows_the_operators(tmp_path: Path) -> None:
    config = BEHIND_CLAUDE.replace(
        "    timeouts", "    headers: {{anthropic-beta: operator-2026-01-01}}\n    timeouts"
    )
    async with claude_in_front_of(messages_api, config, tmp_path) as setting:
        answer = await setting.client.messages.with_raw_response.create(
            model="chat",
            max_tokens=9,
            messages=[HELLO],
            extra_headers={"anthropic-beta": "a-2025-01-01,b-2025-01-01"},
        )

        received = setting.server.requests[-1].headers["anthropic-beta"]
    assert received == "operator-2026-01-01,a-2025-01-01,b-2025-01-01"
    assert "x-gateway-dropped-params" not in answer.headers


async def test_blocks_that_only_the_vendor_has_arrive_in_their_places(tmp_path: Path) -> None:
    async with claude_in_front_of(searches, BEHIND_CLAUDE, tmp_path) as setting:
        whole = await ask(setting, stream=False)
        streamed = await ask(setting, stream=True)

    kinds = ["text", "server_tool_use", "web_search_tool_result", "text", "tool_use"]
    assert [one.type for one in whole.content] == kinds
    assert [one.to_dict() for one in whole.content] == SEARCHED
    assert [one.to_dict() for one in streamed.content] == SEARCHED
    assert streamed.usage.server_tool_use == whole.usage.server_tool_use is not None


CITATION: Json = {
    "type": "web_search_result_location",
    "cited_text": "19 degrees",
    "encrypted_index": "x",
    "title": "Bern",
    "url": "https://bern.test",
}
SEARCHED: list[Json] = [
    {"type": "text", "text": "I search."},
    {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "Bern"}},
    {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
    {"type": "text", "text": "It is 19.", "citations": [CITATION]},
    {
        "type": "tool_use",
        "id": "t1",
        "name": "weather",
        "input": {"at": "Bern"},
        "caller": {"type": "direct"},
    },
]


async def searches(request: Received, answer: Answer) -> None:
    """Answer with the result of a search by the vendor's own tool."""
    usage = {"input_tokens": 1, "output_tokens": 2, "server_tool_use": {"web_search_requests": 1}}
    message: Json = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": SEARCHED,
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": usage,
    }
    if not request.json.get("stream"):
        await answer.json(message)
        return
    await answer.begin_stream()

    async def send(event: Json) -> None:
        await answer.chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    start: Json = {**message, "content": cast("list[Json]", []), "stop_reason": None}
    await send({"type": "message_start", "message": start})
    for index, block in enumerate(SEARCHED):
        empty, deltas = in_pieces(block)
        await send({"type": "content_block_start", "index": index, "content_block": empty})
        for delta in deltas:
            await send({"type": "content_block_delta", "index": index, "delta": delta})
        await send({"type": "content_block_stop", "index": index})
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    await send({"type": "message_delta", "delta": end, "usage": usage})
    await send({"type": "message_stop"})
    await answer.raw(b"0\r\n\r\n")


def in_pieces(block: Json) -> tuple[Json, list[Json]]:
    if "input" in block:
        text = json.dumps(block["input"])
        pieces = [{"type": "input_json_delta", "partial_json": one} for one in (text[:4], text[4:])]
        return {**block, "input": {}}, cast("list[Json]", pieces)
    if "text" not in block:
        return block, []
    empty: Json = {"type": "text", "text": ""}
    deltas: list[Json] = [{"type": "text_delta", "text": block["text"]}]
    if "citations" in block:
        empty["citations"] = []
        deltas.insert(0, {"type": "citations_delta", "citation": CITATION})
    return empty, deltas
