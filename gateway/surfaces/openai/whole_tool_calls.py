"""Tool calls of a whole answer: function calls, and the backend's additional members.

Calls of other types (`custom`) and unknown members of a function call arrive as opaque entries,
each with the `index` of its call, as in a stream.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

FIELD: Final = "tool_calls"


class _Place(Struct, frozen=True, kw_only=True):
    index: int
    type: str = "function"


_entries: Final = msgspec.json.Decoder(list[Raw])
_place: Final = msgspec.json.Decoder(_Place)
_fields: Final = msgspec.json.Decoder(dict[str, Raw])
_encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode


def merge_tool_calls(calls: Sequence[Struct | Raw], entries: Raw) -> list[Struct | Raw]:
    """Return all calls in the backend's order.

    calls: the function calls. entries: ordered by index; one without a type, or of type function,
    adds members to the function call at that index, any other is a call of its own.
    """
    merged: list[Struct | Raw] = [*calls]
    for entry in _entries.decode(entries):
        place, fields = _place.decode(entry), _fields.decode(entry)
        del fields["index"]
        if place.type != "function":
            merged.insert(place.index, Raw(_encode(fields)))
        elif place.index < len(merged):
            merged[place.index] = Raw(_encode(_merged(merged[place.index], fields)))
    return merged


def _merged(call: Struct | Raw, more: dict[str, Raw]) -> dict[str, object]:
    fields: dict[str, object] = dict(_fields.decode(_encode(call)))
    function = more.pop("function", None)
    if function is not None:
        known = _fields.decode(_encode(fields["function"]))
        fields["function"] = {**_fields.decode(function), **known}
    return {**more, **fields}
