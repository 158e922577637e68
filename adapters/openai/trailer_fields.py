"""Decodes streams with an additional object next to the choices, such as Groq's `x_groq`.

The last one may contain usage, or the error that ended the stream early. The object itself is
forwarded to the client like every unknown field.
https://console.groq.com/docs/api-reference#chat-create
"""

from collections.abc import Sequence

from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.errors import error_inside
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_object
from strowger_gateway.adapters.openai.answer_head import usage_from
from strowger_gateway.adapters.openai.decode import OpenAIDecoder
from strowger_gateway.schemas.events import Event, Usage


class TrailerFieldDecoder(OpenAIDecoder):
    """trailer_field: the object's name."""

    def __init__(self, endpoint: Endpoint, *, choices: int, trailer_field: str) -> None:
        super().__init__(endpoint, stream=True, choices=choices)
        self._trailer_field = trailer_field
        self._mark = f'"{trailer_field}"'.encode()
        self._counted = False

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        if self._mark not in data:
            return self._noted(super().feed(event, data))
        raw = _fields(data).get(self._trailer_field, NULL)
        trailer = _fields(raw)
        if trailer.get("error", NULL) != NULL:
            raise error_inside(self._endpoint, bytes(raw))
        events = self._noted(super().feed(event, data))
        counts = trailer.get("usage", NULL)
        if counts == NULL or self._counted:
            return events
        return [*events, usage_from(counts)]

    def _noted(self, events: Sequence[Event]) -> Sequence[Event]:
        self._counted = self._counted or any(type(event) is Usage for event in events)
        return events


def _fields(data: bytes | Raw) -> dict[str, Raw]:
    """Return an object's fields; {} if it is not an object."""
    try:
        return read_object(data)
    except UNREADABLE:
        return {}
