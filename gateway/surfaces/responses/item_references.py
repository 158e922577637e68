"""Items that stand for others: references, carriers, and compaction items, in a request's input."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct

from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.responses.carriers import without_carriers
from strowger_gateway.gateway.surfaces.responses.compaction import (
    KINDS,
    TRIGGER,
    sealed_in,
    unfolded,
)
from strowger_gateway.gateway.surfaces.stored_items import EarlierItems

REFERENCE: Final = "item_reference"

_items: Final = msgspec.json.Decoder(list[Raw])


class _Reference(Struct):
    type: str | None = None
    role: str | None = None
    id: str | None = None
    encrypted_content: str | None = None


_reference: Final = msgspec.json.Decoder(_Reference)
_NO_ID: Final = "(no id)"


def referenced(raw: Raw) -> str:
    """Return the id of the stored item that this one stands for; its type may be absent.

    Of a compaction item that the gateway has sealed, its `encrypted_content`; "" for an item that
    is whole.
    """
    try:
        found = _reference.decode(raw)
    except (DecodeError, RecursionError):
        return ""  # reported when the item is read
    if found.type == REFERENCE or (found.type is None and found.role is None and found.id):
        return found.id or _NO_ID
    return sealed_in(raw) if found.type in KINDS else ""


def is_trigger(item: object) -> bool:
    """Return whether an item asks for a summary of all before it."""
    if not isinstance(item, Raw):
        return False
    try:
        return _reference.decode(item).type == TRIGGER
    except (DecodeError, RecursionError):
        return False  # reported when the item is read


def joined_input(given: Raw, earlier: EarlierItems) -> Raw:
    """Return the whole conversation as items: the stored ones, then the client's."""
    if not earlier.items and not earlier.compacted:
        return with_stored(given, earlier.found)
    return Raw(encode(unfolded(all_items(given, earlier), earlier.compacted)))


def all_items(given: Raw, earlier: EarlierItems) -> list[Raw]:
    """Return the stored items and the client's; compaction items are as they came."""
    items = _items.decode(earlier.items) if earlier.items else []
    if bytes(memoryview(given)[:1]) == b"[":
        return items + _items.decode(with_stored(given, earlier.found))
    return [*items, Raw(encode({"type": "message", "role": "user", "content": given}))]


def with_stored(given: Raw, found: Mapping[str, Raw]) -> Raw:
    """Return the input with stored items in place of the references to them, without carriers."""
    if not found:
        return given
    items = [found.get(referenced(raw), raw) for raw in _items.decode(given)]
    return Raw(encode([raw for raw in without_carriers(items) if bytes(raw)]))


def without_carried(given: Raw) -> Raw:
    """Return the input without the items that only carry others."""
    return Raw(encode(without_carriers(_items.decode(given))))


def without_trigger(given: Raw) -> Raw:
    """Return the input without the item that asks for a summary."""
    if TRIGGER.encode() not in bytes(given) or bytes(memoryview(given)[:1]) != b"[":
        return given
    return Raw(encode([raw for raw in _items.decode(given) if not is_trigger(raw)]))
