"""OpenAI's own client, and a server of the Responses API behind the gateway: nothing is lost."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import cast

import httpx
import openai
import pytest
from openai.types.responses import Response

from tests.adapters.traffic import fixture
from tests.gateway.backends.vendors.backend import answering
from tests.gateway.backends.vendors.dialect import Json, Said, dicts
from tests.gateway.backends.vendors.responses import EventStream, response
from tests.gateway.backends.vendors.rows import VENDORS
from tests.gateway.surfaces.responses.openai_client import (
    HI,
    MADE,
    PROOF,
    TOOLS,
    ResponsesOf,
    fed_back,
    responses_of_every_vendor,
    returned,
)
from tests.gateway.surfaces.responses.streams import frames
from tests.stand_ins.provider import Answer, Behaviour, Received

REFUSED = (openai.BadRequestError, openai.PermissionDeniedError, openai.NotFoundError)
pytestmark = pytest.mark.anyio

(VENDOR,) = [one for one in VENDORS if one.name == "openai-responses"]
(CLAUDE,) = [one for one in VENDORS if one.name == "anthropic"]
NONE: list[object] = []
THOUGHT = "Hm, let me see."
either_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[ResponsesOf, None]:
    async with responses_of_every_vendor(tmp_path_factory.mktemp("run")) as found:
        yield found


def playing(name: str) -> Behaviour:
    """Answer with a recorded body."""
    found = fixture(f"openai-responses/{name}")

    async def behave(request: Received, answer: Answer) -> None:
        if found.streamed:
            await answer.raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
            await answer.raw(b"transfer-encoding: chunked\r\n\r\n")
            for event in found.body.split(b"\n\n")[:-1]:
                if b"response.failed" in event:
                    await asyncio.sleep(0.1)  # the client has the content before
                await answer.chunk(event + b"\n\n")
            await answer.raw(b"0\r\n\r\n")
        else:
            await answer.json(json.loads(found.body))

    return behave


async def post(gateway: ResponsesOf, **body: object) -> httpx.Response:
    async with httpx.AsyncClient(base_url=gateway.setting.gateway.url, timeout=60) as client:
        return await client.post("/v1/responses", json={"model": VENDOR.name, **body})


def sent(gateway: ResponsesOf) -> Json:
    return gateway.setting.server.requests[-1].json


@either_way
async def test_items_of_the_servers_own_tools_arrive_as_they_were_sent(
    gateway: ResponsesOf, stream: bool
) -> None:
    name = "chat-stream-search" if stream else "chat-search"
    gateway.setting.plays(playing(name))

    answer = await gateway.ask(VENDOR, {"tools": [{"type": "web_search"}]}, stream=stream)

    whole = cast("Json", json.loads(fixture("openai-responses/chat-search").body))
    output = [one.to_dict() for one in answer.output]
    for part in dicts(output[1]["content"]):
        part.pop("parsed", None)  # the stream helper's own
    assert output == whole["output"]
    assert (answer.service_tier, answer.status) == ("default", "completed")
    assert answer.id.startswith("resp_")
    assert answer.id != whole["id"]


async def test_events_keep_their_content_and_are_numbered_without_gaps(
    gateway: ResponsesOf,
) -> None:
    gateway.setting.plays(playing("chat-stream-search"))

    answer = await post(gateway, input="hi", tools=[{"type": "web_search"}], stream=True)

    recorded = fixture("openai-responses/chat-stream-search").body
    events = frames(answer.content)
    assert [one["sequence_number"] for one in events] == list(range(len(events)))
    lifecycle = ("response.created", "response.in_progress", "response.completed")
    assert [one for one in events if one["type"] not in lifecycle] == [
        one for one in frames(recorded) if one["type"] not in lifecycle
    ]


@either_way
async def test_a_conversation_goes_back_item_by_item(gateway: ResponsesOf, stream: bool) -> None:
    gateway.setting.plays(
        answering(VENDOR, Said(thought=THOUGHT, proof=PROOF, calls=MADE["parallel"]))
    )
    asked = await gateway.ask(VENDOR, {"tools": TOOLS}, stream=stream)
    body = fed_back(asked)
    await gateway.ask(VENDOR, body, stream=stream)

    assert [one.type for one in asked.output] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert sent(gateway)["input"] == body["input"]
    assert sent(gateway)["tools"] == body["tools"]
    assert sent(gateway)["store"] is False


NATIVE: Json = {
    "instructions": "You are a coding agent.",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {
            "type": "message",
            "role": "assistant",
            "phase": "commentary",
            "id": "msg_1",
            "status": "completed",
            "content": [{"type": "output_text", "text": "I look.", "annotations": NONE}],
        },
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "x"},
        },
        {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "start"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "Done."},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    ],
    "tools": [
        {
            "type": "custom",
            "name": "patch",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
        },
        {"type": "web_search", "search_context_size": "low"},
        {"type": "code_interpreter", "container": {"type": "auto", "memory_limit": "1g"}},
        {"type": "image_generation", "quality": "low"},
        {"type": "shell", "environment": {"type": "container_auto"}},
        {"type": "apply_patch"},
        {"type": "local_shell"},
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "web_search"}, {"type": "custom", "name": "patch"}],
    },
    "include": ["web_search_call.action.sources"],
    "max_tool_calls": 3,
    "truncation": "auto",
    "reasoning": {"effort": "low", "summary": "auto"},
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "context_management": [{"type": "compaction", "compact_threshold": 1000}],
    "max_output_tokens": 100,
}


@either_way
async def test_what_only_this_api_has_passes_unchanged(gateway: ResponsesOf, stream: bool) -> None:
    gateway.setting.plays(answering(VENDOR, Said()))

    answer = await post(gateway, **NATIVE, stream=stream)

    assert answer.status_code == 200, answer.text
    assert "x-gateway-dropped-params" not in answer.headers
    body = sent(gateway)
    for name in ("instructions", "input", "tools", "tool_choice", "max_tool_calls", "truncation"):
        assert body[name] == NATIVE[name], name
    assert body["context_management"] == NATIVE["context_management"]
    assert body["include"] == ["web_search_call.action.sources", "reasoning.encrypted_content"]
    assert body["reasoning"] == NATIVE["reasoning"]
    assert body["text"] == {"verbosity": "low"}
    assert body["store"] is False


async def test_a_custom_tool_is_called_with_its_text(gateway: ResponsesOf) -> None:
    item: Json = {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "call_id": "c1",
        "name": "patch",
        "input": 'Say "hi"\n',
    }
    stream = EventStream()
    at = {"output_index": 0, "item_id": "ctc_1"}
    begun = response([], status="in_progress")
    events = [
        stream.event("response.created", response=begun),
        stream.event("response.in_progress", response=begun),
        stream.event("response.output_item.added", output_index=0, item={**item, "input": ""}),
        stream.event("response.custom_tool_call_input.delta", **at, delta='Say "hi"\n'),
        stream.event("response.custom_tool_call_input.done", **at, input='Say "hi"\n'),
        stream.event("response.output_item.done", output_index=0, item=item),
        stream.event("response.completed", response=response([item])),
    ]

    async def behave(request: Received, answer: Answer) -> None:
        await answer.raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
        await answer.raw(b"transfer-encoding: chunked\r\n\r\n")
        for one in events:
            await answer.chunk(one)
        await answer.raw(b"0\r\n\r\n")

    gateway.setting.plays(behave)
    tools = [{"type": "custom", "name": "patch"}]

    answer = await gateway.ask(VENDOR, {"tools": tools}, stream=True)

    assert [one.to_dict() for one in answer.output] == [item]


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"tools": [{"type": "mcp", "server_label": "x", "server_url": "https://x.test"}]}, "url"),
        (
            {"tools": [{"type": "mcp", "server_label": "x", "connector_id": "connector_gmail"}]},
            "connector_id",
        ),
        (
            {"tools": [{"type": "mcp", "server_label": "x", "authorization": "token"}]},
            "authorization",
        ),
        ({"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]}, "vector_store_ids"),
        ({"tools": [{"type": "code_interpreter", "container": "cntr_1"}]}, "container"),
        (
            {
                "tools": [
                    {
                        "type": "code_interpreter",
                        "container": {"type": "auto", "file_ids": ["file_1"]},
                    }
                ]
            },
            "file_ids",
        ),
        (
            {
                "tools": [
                    {
                        "type": "shell",
                        "environment": {"type": "container_reference", "container_id": "cntr_1"},
                    }
                ]
            },
            "container_id",
        ),
        (
            {"tools": [{"type": "image_generation", "input_image_mask": {"file_id": "file_1"}}]},
            "file_id",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]}]},
            "file_id",
        ),
        (
            {
                "input": [
                    {"role": "user", "content": [{"type": "input_image", "file_id": "file_1"}]}
                ]
            },
            "file_id",
        ),
        ({"input": [HI, {"type": "item_reference", "id": "msg_1"}]}, "item_reference"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"background": True}, "background"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_ids_of_stored_objects_and_addresses_are_denied_by_name(
    gateway: ResponsesOf, more: Json, named: str
) -> None:
    gateway.setting.plays(answering(VENDOR, Said()))

    with pytest.raises(REFUSED, match=named):
        await gateway.ask(VENDOR, more, stream=False)

    assert not gateway.setting.server.requests


async def test_a_wish_to_store_is_named_and_does_not_go_upstream(gateway: ResponsesOf) -> None:
    gateway.setting.plays(answering(VENDOR, Said()))

    answer = await post(gateway, input="hi", store=True)

    assert answer.headers["x-gateway-dropped-params"] == "store"
    assert sent(gateway)["store"] is False
    assert answer.json()["store"] is False


async def test_reasoning_of_another_vendor_does_not_reach_openai(gateway: ResponsesOf) -> None:
    gateway.setting.plays(answering(CLAUDE, Said(thought=THOUGHT, proof=PROOF)))
    first = await gateway.ask(CLAUDE, stream=False)
    gateway.setting.plays(answering(VENDOR, Said()))
    answer = await post(gateway, input=[HI, *returned(first), HI])

    assert answer.headers["x-gateway-dropped-params"] == "input.reasoning"
    assert [one["role"] for one in dicts(sent(gateway)["input"])] == ["user", "assistant", "user"]
    assert PROOF.encode() not in gateway.setting.server.requests[-1].body


async def test_reasoning_of_openai_comes_back_through_chat_completions(
    gateway: ResponsesOf,
) -> None:
    gateway.setting.plays(answering(VENDOR, Said(thought=THOUGHT, proof=PROOF)))
    first = await gateway.setting.ask(VENDOR, stream=True)
    turns = [{"role": "user", "content": "hi"}, first.message, {"role": "user", "content": "hi"}]
    await gateway.setting.ask(VENDOR, {"messages": turns}, stream=False)

    assert first.message["reasoning_content"] == THOUGHT
    _, thought, _, _ = dicts(sent(gateway)["input"])
    assert (thought["id"], thought["encrypted_content"]) == ("rs_7", PROOF)


async def test_a_failure_in_the_middle_keeps_the_items_that_are_complete(
    gateway: ResponsesOf,
) -> None:
    gateway.setting.plays(playing("error-inside-stream"))

    answer = await post(gateway, input="hi", stream=True)

    events = frames(answer.content)
    assert [one["type"] for one in events[-2:]] == ["response.failed", "error"]
    assert [one["sequence_number"] for one in events] == list(range(len(events)))
    failed = Response.model_validate(events[-2]["response"])
    assert failed.error is not None
    assert "The model had an error." in failed.error.message
