"""Streams of the OpenAI dialect that say more of the whole answer after their first frame.

Perplexity's sources, llama.cpp's timings; and Groq's object beside the choices, whose last one can
hold usage, or the error for which the stream ends early.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Raw

from adapters.base import Endpoint
from adapters.openai_decode import OpenAIDecoder
from adapters.openai_errors import error_inside
from adapters.openai_usage import usage_from
from adapters.openai_wire import NULL, UNREADABLE, read_object
from schemas.events import Event, Started, Usage


class LaterFieldsDecoder(OpenAIDecoder):
    """later: fields that are handed on whenever they change. aside: that object's name, or ""."""

    def __init__(
        self, endpoint: Endpoint, *, choices: int, later: frozenset[str], aside: str
    ) -> None:
        super().__init__(endpoint, stream=True, choices=choices)
        self._later = later
        self._aside = aside
        self._marks = tuple(f'"{name}"'.encode() for name in (*later, aside) if name)
        self._head: Started | None = None
        self._counted = False

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        if self._head is not None and not any(mark in data for mark in self._marks):
            return super().feed(event, data)
        fields = _fields(data)
        aside = _fields(fields.get(self._aside, NULL))
        if aside.get("error", NULL) != NULL:
            raise error_inside(self._endpoint, bytes(fields[self._aside]))
        events = [*self._more(fields), *super().feed(event, data)]
        self._note(events)
        counts = aside.get("usage", NULL)
        if counts != NULL and not self._counted:
            events.append(usage_from(counts))
        return events

    def _more(self, fields: Mapping[str, Raw]) -> Iterable[Event]:
        """What is new, with all that was told before: a later `Started` replaces the earlier."""
        head = self._head
        if head is None:
            return ()
        new = {
            name: fields[name].copy()
            for name in sorted(self._later & fields.keys())
            if fields[name] not in (NULL, head.extra.get(name))
        }
        if not new:
            return ()
        self._head = msgspec.structs.replace(head, extra={**head.extra, **new})
        return (self._head,)

    def _note(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case Started():
                    self._head = event
                case Usage():
                    self._counted = True
                case _:
                    pass


def _fields(data: bytes | Raw) -> dict[str, Raw]:
    """Nothing for what is no object."""
    try:
        return read_object(data)
    except UNREADABLE:
        return {}
