"""What the frames of an OpenAI-dialect answer say of the whole: its id, model, and other fields.

Fields that we do not know may come in any frame. A frame that has none is told from the others by
its type, so that only the others cost a closer look.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.bounds import NOTES, check_room
from adapters.openai_repair import as_text, seconds
from adapters.openai_wire import (
    NULL,
    UNREADABLE,
    Head,
    OpenChunk,
    read_chunk,
    read_head,
    read_object,
    read_open_chunk,
)
from schemas.events import Event, Started

KNOWN = frozenset({"id", "model", "created", "choices", "usage", "object", "error", "obfuscation"})
"""Fields that are read, or that hold nothing for a client."""


class AnswerHead:
    """Mutable: whether the answer has begun, and the fields that have come so far.

    extra: those that we do not know; some may be set before the first frame.
    """

    def __init__(self, upstream: str, *, stream: bool) -> None:
        self.extra: dict[str, Raw] = {}
        self._upstream = upstream
        self._stream = stream
        self._begun = False
        self._started = Started()
        self._open = False
        self._news = False

    @property
    def id(self) -> str:
        """ "" until the answer has begun, and where the backend gives none."""
        return self._started.id

    def read(self, data: bytes) -> OpenChunk:
        """Raises one of `UNREADABLE`.

        A server that has sent a field that we do not know is expected to repeat it, so its further
        frames are not tried against the stricter type.
        """
        if self._open:
            return read_open_chunk(data)
        try:
            return read_chunk(data)
        except msgspec.ValidationError:
            chunk = read_open_chunk(data)
            self._open = True
            return chunk

    def is_known(self, chunk: OpenChunk, data: bytes) -> bool:
        """The fields beside the choices say nothing new. chunk: from `read`."""
        if not self._begun:
            return False
        if self._open:
            self._news = self._note(read_object(data))
            return not self._news
        mark, tier = chunk.system_fingerprint, chunk.service_tier
        return (mark is NULL or mark == self.extra.get("system_fingerprint", NULL)) and (
            tier is NULL or tier == self.extra.get("service_tier", NULL)
        )

    def tell(self, chunk: OpenChunk, data: bytes, events: list[Event]) -> None:
        """Appends the answer's start, and the same with more fields where later frames have some.

        Azure sends a frame without id or choices first; its fields wait for the real one.
        """
        news = self._note(read_object(data)) or self._news
        self._news = False
        if self._begun:
            if news:
                self._started = replace(self._started, extra={**self.extra})
                events.append(self._started)
            return
        if not chunk.choices and self._stream:
            return
        self._begun = True
        try:
            head = read_head(data)
        except UNREADABLE:
            head = _odd_head(data)
        self._started = Started(
            id=head.id or "",
            model=head.model or "",
            created=head.created or 0,
            extra={**self.extra},
        )
        events.append(self._started)

    def _note(self, fields: Mapping[str, Raw]) -> bool:
        """Keeps the fields that we do not know; whether one is new or has changed."""
        news = False
        for name in [name for name in fields if name not in KNOWN]:
            raw = fields[name]
            if raw != self.extra.get(name) and raw != NULL:
                check_room(self.extra, NOTES, "fields", self._upstream)
                self.extra[name] = raw.copy()
                news = True
        return news


def _odd_head(data: bytes) -> Head:
    """That of a frame whose fields are not of the types that we expect."""
    fields = read_object(data)
    return Head(
        id=as_text(fields.get("id", NULL)),
        model=as_text(fields.get("model", NULL)),
        created=seconds(fields.get("created", NULL)),
    )
