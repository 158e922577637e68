"""Fields that a speaker of the OpenAI dialect adds to its choices, handed on to the client.

They become fields of the choice's message, because an answer has no other place for them.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from adapters.base import Endpoint
from adapters.openai_decode import OpenAIDecoder
from adapters.openai_wire import NULL, UNREADABLE
from schemas.events import Event, Finished, OpaqueDelta


class _Choices(Struct, frozen=True, kw_only=True):
    choices: tuple[dict[str, Raw], ...] = ()


_choices = msgspec.json.Decoder(_Choices)
_index = msgspec.json.Decoder(int)


class ChoiceFieldsDecoder(OpenAIDecoder):
    """fields: the names of those that are handed on, where they are not null."""

    def __init__(
        self, endpoint: Endpoint, *, stream: bool, choices: int, fields: frozenset[str]
    ) -> None:
        super().__init__(endpoint, stream=stream, choices=choices)
        self._fields = fields
        self._marks = tuple(f'"{name}"'.encode() for name in fields)

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        events = super().feed(event, data)
        if not any(mark in data for mark in self._marks):
            return events
        try:
            choices = _choices.decode(data).choices
        except UNREADABLE:
            return events
        found = list(events)
        for place, choice in enumerate(choices):
            index = _place(choice, place)
            fields = self.told(index, self._given(choice))
            if fields:
                delta = OpaqueDelta(fields=dict(fields), index=index)
                found.insert(_before_the_end(found, index), delta)
        return found

    def told(self, index: int, fields: Mapping[str, Raw]) -> Mapping[str, Raw]:
        """Those that the client hears of this time."""
        return fields

    def _given(self, choice: dict[str, Raw]) -> dict[str, Raw]:
        return {
            name: raw.copy() for name, raw in choice.items() if name in self._fields and raw != NULL
        }


def _place(choice: dict[str, Raw], place: int) -> int:
    try:
        return _index.decode(choice.get("index", NULL))
    except UNREADABLE:
        return place


def _before_the_end(events: Sequence[Event], index: int) -> int:
    for place, event in enumerate(events):
        if isinstance(event, Finished) and event.index == index:
            return place
    return len(events)
