"""Write the events of a backend that speaks this API, as it sent them.

Only their numbers change, because the events about the whole response are the gateway's own, and
the items' places, if there are carriers between them; a list that clients require is added.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.responses.carriers import REASONING, Carriers, inserted
from strowger_gateway.gateway.surfaces.responses.item_writer import ItemWriter
from strowger_gateway.gateway.surfaces.sse import one_line

ADDED: Final = "response.output_item.added"
DONE: Final = "response.output_item.done"
_WITH_LOGPROBS: Final = frozenset({"response.output_text.delta", "response.output_text.done"})
"""Events whose `logprobs` clients require, and Azure and OpenRouter leave out."""

_INCOMPLETE: Final = Raw(b'"incomplete"')


class _Event(Struct, frozen=True, kw_only=True, gc=False):
    type: str
    sequence_number: int = -1
    output_index: int = -1
    item: Raw = Raw(b"null")
    logprobs: Raw | UnsetType = UNSET


class _Typed(Struct, frozen=True, kw_only=True, gc=False):
    type: str = ""


_typed: Final[msgspec.json.Decoder[_Typed]] = msgspec.json.Decoder(_Typed)
_event: Final = msgspec.json.Decoder(_Event)
_fields: Final = msgspec.json.Decoder(dict[str, Raw])


class NativeEvents:
    """Mutable state: the items that have begun, and those that have ended, by their index.

    carriers: make items that carry others; `None`: there are none.
    """

    def __init__(self, carriers: Carriers | None = None, leading: Sequence[bytes] = ()) -> None:
        """leading: items that are written already, before all of the backend's."""
        self._carriers = carriers
        self._carried: dict[int, bytes] = dict(enumerate(leading))
        self._places: dict[int, int] = {}
        self._open: dict[int, Raw] = {}
        self._ended: dict[int, Raw] = {at: Raw(one) for at, one in self._carried.items()}

    def write(self, raw: Raw, numbers: ItemWriter, out: list[bytes]) -> None:
        """numbers: counts the events of the stream."""
        event = _event.decode(raw)
        watched = self._carriers is not None and event.type in (ADDED, DONE)
        kind = _typed.decode(event.item).type if watched else ""
        # An item that is open keeps its place, whatever carrier comes after it.
        place = self._places.get(event.output_index, event.output_index + len(self._carried))
        if event.type == ADDED:
            if kind != REASONING and self._carry(place, numbers, out):
                place += 1
            self._places[event.output_index] = place
            self._open[place] = event.item.copy()
        elif event.type == DONE:
            self._open.pop(place, None)
            self._ended[place] = event.item.copy()
        data = bytes(raw)
        changes: dict[str, object] = {}
        if event.sequence_number != numbers.number:
            changes["sequence_number"] = numbers.number
        if self._carried and event.output_index >= 0:
            changes["output_index"] = place
        if event.logprobs is UNSET and event.type in _WITH_LOGPROBS:
            changes["logprobs"] = ()
        if changes:
            data = encode({**_fields.decode(raw), **changes})
        out.append(b"event: %b\ndata: %b\n\n" % (event.type.encode(), one_line(data)))
        numbers.number += 1
        if self._carriers is not None and event.type == DONE:
            self._carriers.note(one_line(bytes(event.item)), kind)

    def finish(self, numbers: ItemWriter, out: list[bytes]) -> bytes:
        """End what the backend has not ended. Return all items as a JSON list."""
        for index, item in sorted(self._open.items()):
            cut = Raw(encode({**_fields.decode(item), "status": _INCOMPLETE}))
            self._ended[index] = cut
            if self._carriers is not None:
                self._carriers.note(one_line(bytes(cut)), _typed.decode(cut).type)
            numbers.emit(
                DONE.encode(), b'"output_index":%d,"item":%b' % (index, one_line(bytes(cut))), out
            )
        self._open.clear()
        self._carry(max(self._ended, default=-1) + 1, numbers, out)
        return self.ended()

    def ended(self) -> bytes:
        """Return the items that have ended, as a JSON list."""
        return b"[%b]" % b",".join(
            [one_line(bytes(item)) for _, item in sorted(self._ended.items())]
        )

    def whole(self, output: bytes) -> bytes:
        """Return the backend's own list of all items, with the carriers."""
        return inserted(output, self._carried)

    def _carry(self, place: int, numbers: ItemWriter, out: list[bytes]) -> bool:
        """Write the item that carries those which have ended; return whether there is one."""
        found = None if self._carriers is None else self._carriers.item()
        if found is None:
            return False
        for kind, item in ((ADDED, found[0]), (DONE, found[1])):
            numbers.emit(kind.encode(), b'"output_index":%d,"item":%b' % (place, item), out)
        self._ended[place], self._carried[place] = Raw(found[1]), found[1]
        return True
