"""Streams of the Messages surface as the official client reads them."""

from collections.abc import Iterable, Sequence

import anthropic
import httpx2
import pydantic
from anthropic.types import RawMessageStreamEvent
from anthropic.types.parsed_message import ParsedMessage

from strowger_gateway.gateway.surfaces.anthropic.render import MessagesRenderer
from strowger_gateway.schemas.answers import Fold
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest

REQUEST = ChatRequest(model="asked", messages=(Message(role="user", content="hi"),), stream=True)
_event = pydantic.TypeAdapter[RawMessageStreamEvent](RawMessageStreamEvent)


def messages_stream(batches: Iterable[Sequence[Event]]) -> bytes:
    """The bytes of a stream that ends as it should."""
    renderer = MessagesRenderer(REQUEST, id="msg_1")
    return b"".join([*(renderer.events(batch) for batch in batches), renderer.finish()])


def whole_message(events: Sequence[Event]) -> anthropic.types.Message:
    """The answer that is not streamed, read strictly."""
    fold = Fold()
    fold.add(events)
    body = MessagesRenderer(REQUEST, id="msg_1").answer(fold.answer())
    return anthropic.types.Message.model_validate_json(body)


def read_strictly(data: bytes) -> list[RawMessageStreamEvent]:
    """Every event as the client's types have it. Fails for any other line."""
    found: list[RawMessageStreamEvent] = []
    for frame in data.removesuffix(b"\n\n").split(b"\n\n"):
        name, payload = frame.split(b"\n")
        event = _event.validate_json(payload.removeprefix(b"data: "))
        assert name == b"event: " + event.type.encode()
        found.append(event)
    return found


def helped(data: bytes) -> ParsedMessage[None]:
    """What the client's stream helper makes of the bytes."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        kind = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=kind, content=data, request=request)

    transport = httpx2.MockTransport(answer)
    with (
        httpx2.Client(transport=transport) as web,
        anthropic.Anthropic(api_key="x", http_client=web, max_retries=0) as client,
        client.messages.stream(model="m", max_tokens=1, messages=[]) as stream,
    ):
        return stream.get_final_message()


def in_order(events: Sequence[RawMessageStreamEvent]) -> None:
    """Assert that blocks begin and end one after the other, between the message's ends."""
    assert events[0].type == "message_start"
    assert [one.type for one in events[-2:]] == ["message_delta", "message_stop"]
    place, open_block = -1, False
    for one in events[1:-2]:
        match one.type:
            case "content_block_start":
                assert not open_block
                place, open_block = place + 1, True
                assert one.index == place
            case "content_block_delta":
                assert open_block
                assert one.index == place
            case "content_block_stop":
                assert open_block
                assert one.index == place
                open_block = False
            case _:
                raise AssertionError(f"{one.type} in the middle")
    assert not open_block
