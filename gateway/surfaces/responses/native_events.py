"""Write the events of a backend that speaks this API, as it sent them.

Only their numbers change, because the events about the whole response are the gateway's own.
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct

from gateway.surfaces.openai.stream_chunks import encode
from gateway.surfaces.responses.item_writer import ItemWriter
from gateway.surfaces.sse import one_line

ADDED: Final = "response.output_item.added"
DONE: Final = "response.output_item.done"
_INCOMPLETE: Final = Raw(b'"incomplete"')


class _Event(Struct, frozen=True, kw_only=True, gc=False):
    type: str
    sequence_number: int = -1
    output_index: int = 0
    item: Raw = Raw(b"null")


_event: Final = msgspec.json.Decoder(_Event)
_fields: Final = msgspec.json.Decoder(dict[str, Raw])


class NativeEvents:
    """Mutable state: the items that have begun, and those that have ended, by their index."""

    def __init__(self) -> None:
        self._open: dict[int, Raw] = {}
        self._ended: dict[int, Raw] = {}

    def write(self, raw: Raw, numbers: ItemWriter, out: list[bytes]) -> None:
        """numbers: counts the events of the stream."""
        event = _event.decode(raw)
        if event.type == ADDED:
            self._open[event.output_index] = event.item.copy()
        elif event.type == DONE:
            self._open.pop(event.output_index, None)
            self._ended[event.output_index] = event.item.copy()
        data = bytes(raw)
        if event.sequence_number != numbers.number:
            data = encode({**_fields.decode(raw), "sequence_number": numbers.number})
        out.append(b"event: %b\ndata: %b\n\n" % (event.type.encode(), one_line(data)))
        numbers.number += 1

    def finish(self, numbers: ItemWriter, out: list[bytes]) -> bytes:
        """End what the backend has not ended. Return all items as a JSON list."""
        for index, item in sorted(self._open.items()):
            cut = Raw(encode({**_fields.decode(item), "status": _INCOMPLETE}))
            self._ended[index] = cut
            numbers.emit(
                DONE.encode(), b'"output_index":%d,"item":%b' % (index, one_line(bytes(cut))), out
            )
        self._open.clear()
        return self.ended()

    def ended(self) -> bytes:
        """Return the items that have ended, as a JSON list."""
        return b"[%b]" % b",".join(
            [one_line(bytes(item)) for _, item in sorted(self._ended.items())]
        )
