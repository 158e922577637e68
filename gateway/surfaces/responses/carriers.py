"""Empty reasoning items whose ids carry other items in sealed form, for clients that return ids.

Vercel's AI SDK (`@ai-sdk/openai`, convertToOpenAIResponsesInput) sends an `item_reference` for each
reasoning and message that it got, and not their content, unless `store` is false. The id of an item
of a stream is known to the client before its content exists, so that no item can carry itself: the
next one does.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct

from strowger_gateway.gateway.surfaces.responses.items import COMPLETED, IN_PROGRESS, reasoning
from strowger_gateway.gateway.surfaces.sse import one_line

PREFIX: Final = "rs_sealed_"
REASONING: Final = "reasoning"
_WHOLE: Final = frozenset({"function_call"})
"""Kinds of items that clients return whole, whatever they refer to."""

_raws: Final = msgspec.json.Decoder(list[Raw])


class _Named(Struct, frozen=True, kw_only=True):
    id: str | None = None
    type: str | None = None


_named: Final = msgspec.json.Decoder(_Named)


class Carriers:
    """Mutable state: the items of one answer that no carrier has yet.

    seal: returns data in sealed form.
    """

    def __init__(self, seal: Callable[[bytes], str]) -> None:
        self._seal = seal
        self._waiting: list[bytes] = []

    def note(self, item: bytes, kind: str) -> None:
        """Note an item that has ended, as JSON; kind: its type."""
        if kind not in _WHOLE:
            self._waiting.append(item)

    def item(self) -> tuple[bytes, bytes] | None:
        """Return the carrier of the items since the last one, as it begins and as it ends."""
        if not self._waiting:
            return None
        id = (PREFIX + self._seal(b"[%b]" % b",".join(self._waiting))).encode()
        self._waiting.clear()
        begun = reasoning(id, "", "", summarised=True, status=IN_PROGRESS)
        return begun, reasoning(id, "", "", summarised=True, status=COMPLETED)

    def woven(self, output: bytes) -> bytes:
        """Return a whole answer's items, a JSON list, with carriers between them."""
        made: list[bytes] = []
        for raw in _raws.decode(output):
            kind = _named.decode(raw).type or ""
            if kind != REASONING:
                self._end(made)
            item = one_line(bytes(raw))
            made.append(item)
            self.note(item, kind)
        self._end(made)
        return b"[%b]" % b",".join(made)

    def _end(self, made: list[bytes]) -> None:
        carrier = self.item()
        if carrier is not None:
            made.append(carrier[1])


def is_carrier(id: str | None) -> bool:
    """Return whether an item of this id carries others, and has nothing itself."""
    return id is not None and id.startswith(PREFIX)


def carried(data: bytes) -> Mapping[str, Raw]:
    """Return the items in the data of a carrier, by their ids."""
    return {_named.decode(raw).id or "": raw for raw in _raws.decode(data)}


def without_carriers(items: Iterable[Raw]) -> Sequence[Raw]:
    """Return the items but those that clients returned whole although they only carry others."""
    return [raw for raw in items if PREFIX.encode() not in bytes(raw) or not _carries(raw)]


def _carries(raw: Raw) -> bool:
    try:
        return is_carrier(_named.decode(raw).id)
    except (DecodeError, RecursionError):
        return False  # reported when the item is read


def inserted(output: bytes, carriers: Mapping[int, bytes]) -> bytes:
    """Return a JSON list of items with carriers at these places of the result."""
    made: list[bytes] = [one_line(bytes(raw)) for raw in _raws.decode(output)]
    for place, carrier in sorted(carriers.items()):
        made.insert(place, carrier)
    return b"[%b]" % b",".join(made) if carriers else one_line(output)
