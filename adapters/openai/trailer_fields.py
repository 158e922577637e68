"""Streams of the OpenAI dialect with an object beside the choices, such as Groq's `x_groq`.

The last one can hold usage, or the error for which the stream ends early. The object itself goes
on to the client like every field that we do not know.
https://console.groq.com/docs/api-reference#chat-create
"""

from collections.abc import Sequence

from msgspec import Raw

from adapters.base import Endpoint
from adapters.errors import error_inside
from adapters.openai.decode import OpenAIDecoder
from adapters.openai.usage import usage_from
from adapters.openai.wire import NULL, UNREADABLE, read_object
from schemas.events import Event, Usage


class AsideDecoder(OpenAIDecoder):
    """aside: the object's name."""

    def __init__(self, endpoint: Endpoint, *, choices: int, aside: str) -> None:
        super().__init__(endpoint, stream=True, choices=choices)
        self._aside = aside
        self._mark = f'"{aside}"'.encode()
        self._counted = False

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        if self._mark not in data:
            return self._noted(super().feed(event, data))
        raw = _fields(data).get(self._aside, NULL)
        aside = _fields(raw)
        if aside.get("error", NULL) != NULL:
            raise error_inside(self._endpoint, bytes(raw))
        events = self._noted(super().feed(event, data))
        counts = aside.get("usage", NULL)
        if counts == NULL or self._counted:
            return events
        return [*events, usage_from(counts)]

    def _noted(self, events: Sequence[Event]) -> Sequence[Event]:
        self._counted = self._counted or any(type(event) is Usage for event in events)
        return events


def _fields(data: bytes | Raw) -> dict[str, Raw]:
    """Nothing for what is no object."""
    try:
        return read_object(data)
    except UNREADABLE:
        return {}
