"""Feeds a recorded body to an adapter, in arbitrary pieces."""

from collections.abc import Iterable

from strowger_gateway.adapters.base import Adapter, Framing
from strowger_gateway.adapters.framing import FRAMING, MAX_FRAME, Frame
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.requests import GenerateRequest


def frames(adapter: Adapter, pieces: Iterable[bytes]) -> list[Frame]:
    return framed(adapter.framing, pieces)


def framed(framing: Framing, pieces: Iterable[bytes]) -> list[Frame]:
    """Return the frames of a stream in these pieces."""
    parser = FRAMING[framing]("contract", MAX_FRAME)
    found = [frame for piece in pieces for frame in parser.feed(piece)]
    return found + parser.close()


def translate(adapter: Adapter, request: GenerateRequest, pieces: Iterable[bytes]) -> list[Event]:
    """Return the events of an answer in these pieces. Raises what the adapter raises."""
    decoder = adapter.decoder(request)
    found = frames(adapter, pieces) if request.stream else [("", b"".join(pieces))]
    events = [event for name, data in found for event in decoder.feed(name, data)]
    return [*events, *decoder.close()]


def outcome(
    adapter: Adapter, request: GenerateRequest, pieces: Iterable[bytes]
) -> tuple[list[Event], str]:
    """Return the events up to the error, if there is one, and the error's text."""
    decoder, events = adapter.decoder(request), list[Event]()
    try:
        for name, data in frames(adapter, pieces):
            events += decoder.feed(name, data)
        events += decoder.close()
    except GatewayError as exc:
        return events, f"{type(exc).__name__}: {exc}"
    return events, ""
