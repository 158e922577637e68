"""Streams of the Responses surface as the official client reads them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import cast, get_args

import httpx2
import openai
import pydantic
from openai.types.responses import Response, ResponseStreamEvent

from strowger_gateway.gateway.surfaces.responses.parse import parse_response
from strowger_gateway.gateway.surfaces.responses.render import ResponsesRenderer
from strowger_gateway.schemas.answers import Fold
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.requests import ChatRequest
from tests.gateway.backends.vendors.dialect import inner

Json = Mapping[str, object]

NOW = 1_800_000_000
_union, *_ = get_args(ResponseStreamEvent)
EVENTS: Mapping[str, type[pydantic.BaseModel]] = {
    get_args(model.model_fields["type"].annotation)[0]: model for model in get_args(_union)
}
"""The client's types of events by their name: the union itself tries each of them."""


SETTINGS = frozenset(
    """
    id object created_at completed_at status incomplete_details model previous_response_id
    instructions output error tools tool_choice truncation parallel_tool_calls text top_p
    presence_penalty frequency_penalty top_logprobs temperature reasoning usage
    max_output_tokens max_tool_calls store background service_tier metadata safety_identifier
    prompt_cache_key
    """.split()  # noqa: SIM905  forty quoted strings are harder to read
)
"""The members of a response that Open Responses requires, null or not."""


def asked(**more: object) -> ChatRequest:
    """A request with these fields."""
    return parse_response(json.dumps({"model": "asked", "input": "hi", **more}).encode())


def renderer(request: ChatRequest | None = None) -> ResponsesRenderer:
    return ResponsesRenderer(
        request or asked(), request_id="r1", created=NOW - 2, clock=lambda: NOW + 0.5
    )


def response_stream(
    batches: Iterable[Sequence[Event]], request: ChatRequest | None = None
) -> bytes:
    """The bytes of a stream that ends as it should."""
    writer = renderer(request)
    return b"".join([*(writer.events(batch) for batch in batches), writer.finish()])


def whole_response(events: Sequence[Event], request: ChatRequest | None = None) -> Json:
    """The answer that is not streamed, of which the client's type fails for no member."""
    fold = Fold()
    fold.add(events)
    body = json.loads(renderer(request).answer(fold.answer()))
    Response.model_validate(body)
    assert body.keys() >= SETTINGS
    return body


def frames(data: bytes) -> list[Json]:
    """Every event, which the client's types must know. Fails for any other line."""
    found: list[Json] = []
    for frame in data.removesuffix(b"\n\n").split(b"\n\n"):
        if frame == b"data: [DONE]":
            continue
        name, payload = frame.split(b"\n")
        event = cast("Json", json.loads(payload.removeprefix(b"data: ")))
        EVENTS[str(event["type"])].model_validate(event)
        assert name == b"event: " + str(event["type"]).encode()
        found.append(event)
    return found


def last_response(data: bytes) -> Json:
    """The response in the last event."""
    return inner(frames(data)[-1], "response")


def helped(data: bytes) -> Response:
    """What the client's stream helper makes of the bytes."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        kind = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=kind, content=data, request=request)

    transport = httpx2.MockTransport(answer)
    with (
        httpx2.Client(transport=transport) as web,
        openai.OpenAI(api_key="x", http_client=web, max_retries=0) as client,
        client.responses.stream(model="m", input="") as stream,
    ):
        last: object = None
        for event in stream:
            last = event
        return cast("Response", getattr(last, "response"))  # noqa: B009  of the last event


def put_together(events: Sequence[Json]) -> list[Json]:
    """The output that the deltas amount to. Fails for an event out of its item's order."""
    items: list[dict[str, object]] = []
    done: dict[int, Json] = {}
    texts: dict[tuple[int, str, int], str] = {}
    assert [one["sequence_number"] for one in events] == list(range(len(events)))
    assert [one["type"] for one in events[:2]] == ["response.created", "response.in_progress"]
    for one in events[2:-1]:
        kind, index = str(one["type"]), cast("int", one["output_index"])
        assert index not in done, one
        if kind == "response.output_item.added":
            assert index == len(items)
            items.append(dict(cast("Json", one["item"])))
            continue
        if kind == "response.output_item.done":
            item = cast("Json", one["item"])
            assert item["id"] == items[index]["id"]
            assert _text_of(item) == "".join(
                text for (at, _, _), text in sorted(texts.items()) if at == index
            )
            done[index] = item
            continue
        assert one["item_id"] == items[index]["id"]
        part = cast("int", one.get("content_index", one.get("summary_index", 0)))
        what = kind.removeprefix("response.").rpartition(".")[0]
        key = (index, "", part)
        if kind.endswith("part.added"):
            assert key not in texts
            texts[key] = ""
        elif kind.endswith(".delta"):
            texts[key] = texts.get(key, "") + str(one["delta"])
        elif "_part" not in what:
            (whole,) = [one[name] for name in _WHOLE if name in one]
            assert texts[key] == whole
    assert len(done) == len(items)
    return [done[index] for index in range(len(items))]


_WHOLE = ("text", "refusal", "arguments", "input")


def _text_of(item: Json) -> str:
    parts = [
        *cast("list[Json]", item.get("summary", [])),
        *cast("list[Json]", item.get("content", [])),
    ]
    return "".join(str(one[name]) for one in (*parts, item) for name in _WHOLE if name in one)
