"""Frames of an OpenAI stream; the bytes around a chunk's choice are built only once.

Also shared by streams and whole answers: ids, unknown fields, log probabilities.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.gateway.surfaces.openai.usage import usage_json
from strowger_gateway.gateway.surfaces.sse import DONE, one_line
from strowger_gateway.schemas.events import OF_CHOICE, Started, TokenLogprob, Usage

OURS: Final = frozenset(("id", "object", "created", "model", "choices", "usage"))
"""Top-level fields of an answer that a backend's unknown fields never replace."""

NEVER: Final = -9999.0
"""The dialect's value for the logarithm of a probability of 0, which JSON cannot represent."""

encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode


def created_at(request_id: str) -> int:
    """Return the Unix seconds at which a UUIDv7 was created, RFC 9562 section 5.7."""
    return int(request_id[:8] + request_id[9:13], 16) // 1000


class ChunkIdentity(Struct, frozen=True, kw_only=True):
    """The fields that every chunk of an answer repeats. created: Unix seconds."""

    id: str
    object: str
    created: int
    model: str


class ChunkWriter:
    """Frames of one stream.

    head, tail: bytes before and after a chunk's choice; they change with `started` and `count`.
    """

    def __init__(self, identity: ChunkIdentity, *, usage: bool, running: bool) -> None:
        """usage: the last chunk carries usage. running: every chunk carries the counts so far."""
        self._identity = identity
        self._include_usage = usage
        self._counts = b"null" if usage or running else b""
        self._scalars = b""
        self._send_once: dict[str, Raw] = {}
        self._sent_once: dict[str, Raw] = {}
        self._has_unsent = False
        self.head = b""
        self.tail = b""
        self._write(identity)

    def started(self, started: Started) -> None:
        """Store the backend's own model name, and its unknown fields.

        Scalars are repeated in every chunk; objects and lists appear only in the next one, and
        again when a later `Started` changes them.
        """
        if started.model:
            self._identity = msgspec.structs.replace(self._identity, model=started.model)
        once: dict[str, Raw] = {}
        scalars: dict[str, Raw] = {}
        for name, raw in started.extra.items():
            (once if bytes(memoryview(raw)[:1]) in b"{[" else scalars)[name] = raw
        self._scalars, before = members(scalars), self._scalars
        self._has_unsent = self._has_unsent or self._scalars != before
        self._send_once = {
            name: raw for name, raw in once.items() if self._sent_once.get(name) != raw
        }
        self._write(self._identity)

    def count(self, usage: Usage) -> None:
        """Put these counts on every chunk from now on."""
        self._counts = one_line(usage_json(usage))
        self._write(self._identity)

    def chunk(self, choice: bytes) -> bytes:
        """Return the frame of one chunk with one choice, given as JSON."""
        self._has_unsent = False
        if self._send_once:
            return b"".join((self.head, choice, b"]", self._new(), self.tail[1:]))
        return b"".join((self.head, choice, self.tail))

    def around(self) -> tuple[bytes, bytes]:
        """Return the bytes before and after the choices of chunks that contain only text."""
        self._has_unsent = False
        return self.head, self.tail

    def finish(self, usage: Usage | None, empty: bytes) -> bytes:
        """Return the usage chunk, if the client asked and the backend counted, and the end mark.

        empty: a choice without content, for backend fields that arrived after the last chunk, if
        no usage chunk can carry them.
        """
        if usage is None or not self._include_usage:
            return self.chunk(empty) + DONE if self._send_once or self._has_unsent else DONE
        counts = one_line(usage_json(usage))
        fields = self._new() + self._scalars
        return b"".join((self.head, b"]", fields, b',"usage":', counts, b"}\n\n", DONE))

    def _new(self) -> bytes:
        """Return the objects and lists that the client has not received yet."""
        once, self._send_once = self._send_once, {}
        self._sent_once.update(once)
        return members(once)

    def _write(self, identity: ChunkIdentity) -> None:
        self.head = b"".join((b"data: ", encode(identity)[:-1], b',"choices":['))
        usage = b',"usage":' + self._counts if self._counts else b""
        self.tail = b"".join((b"]", self._scalars, usage, b"}\n\n"))


def members(extra: Mapping[str, Raw], kept: Collection[str] = OURS) -> bytes:
    """Return unknown fields as `,"name":value` each, on one line, for use before a closing brace.

    kept: names to leave out, because the gateway's own fields have them.
    """
    if not extra:
        return b""
    pieces: list[bytes] = []
    for marked, raw in extra.items():
        name = marked.removeprefix(OF_CHOICE)
        if name not in kept:
            pieces += (b",", encode(name), b":", one_line(bytes(raw)))
    return b"".join(pieces)


def with_members(body: bytes, extra: Mapping[str, Raw], kept: Collection[str] = OURS) -> bytes:
    """body: a JSON object that is not empty. kept: see `members`."""
    return b"".join((body[:-1], members(extra, kept), b"}")) if extra else body


def finite(logprob: float | None) -> float:
    return NEVER if logprob is None or math.isinf(logprob) else logprob


class _Top(Struct, frozen=True, kw_only=True):
    token: str
    logprob: float
    bytes: list[int]


class ChatLogprob(Struct, frozen=True, kw_only=True):
    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[_Top]


def chat_logprobs(logprobs: Iterable[TokenLogprob]) -> list[ChatLogprob]:
    """Return the chat format: each token with its bytes and its alternatives."""
    return [
        ChatLogprob(
            token=item.token,
            logprob=finite(item.logprob),
            bytes=_bytes(item),
            top_logprobs=[
                _Top(token=rival.token, logprob=finite(rival.logprob), bytes=_bytes(rival))
                for rival in item.top
            ],
        )
        for item in logprobs
    ]


def _bytes(item: TokenLogprob) -> list[int]:
    return list(item.token.encode() if item.bytes is None else item.bytes)
