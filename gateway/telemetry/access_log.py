"""One structured line a request, written by a thread so that a slow reader stops nobody."""

import logging
import queue
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import BinaryIO, Literal

import msgspec
from msgspec import Struct

from gateway.routing.request_record import Attempt
from gateway.store.rows import Source
from gateway.telemetry.mirror_log_entry import MirrorLogEntry

MAX_MESSAGE_CHARS = 500
"""Characters of an error's message, or of a field's path, that a line holds."""

_encoder = msgspec.json.Encoder()
_log = logging.getLogger("strowger")


class AccessLine(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What happened to one request. Times in milliseconds; `time` in Unix seconds.

    status:       499 where the client hung up.
    usage_source: `reported` by the backend, or `estimated` from the pieces of content that went
                  out, where the answer ended before usage came.
    experiment:   it takes part in it as `variant`; without one it was left out.
    fallback:     another backend than its variant's answered, or was the last to fail.
    client:       the address that the request came from.
    denied:       why it got 401 or 403, in the words of its answer.
    error, param, message: the code of the error, the field that it names, and its sentence, of at
                  most MAX_MESSAGE_CHARS characters. They repeat nothing of the request's content,
                  except what the sentence quotes.
    method, path, actor: of a request at /admin, of one that was refused on a route of its kind,
                  or of one to a path that is not served.
                  actor: the `admin key` or a browser's `session`; "" for nobody known.
    unpriced:     tokens were used, `prices` is in use, and none of its rows is this backend's.
    """

    time: float
    request_id: str
    surface: str
    status: int
    ms: float
    client_request_id: str = ""
    client: str = ""
    method: str = ""
    path: str = ""
    actor: str = ""
    denied: str = ""
    key: str = ""
    task: str = ""
    model: str = ""
    route: str = ""
    backend: str = ""
    experiment: str = ""
    variant: str = ""
    fallback: bool = False
    stream: bool = False
    error: str = ""
    param: str = ""
    message: str = ""
    ttft_ms: float | None = None
    attempts: tuple[Attempt, ...] = ()
    dropped: tuple[str, ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    reasoning_tokens: int | None = None
    usage_source: Source = ""
    cost_usd: float | None = None
    unpriced: bool = False


_Batch = bytes | threading.Event | None
"""Bytes to write; an event to set; `None` to end."""


class AccessLog:
    """Encodes lines on the event loop, many at a time; a thread writes them.

    A blocked reader of the log fills the queue: beyond `limit` lines they are dropped, and their
    number is written once there is room again.
    """

    def __init__(
        self,
        out: BinaryIO,
        style: Literal["json", "text"],
        *,
        limit: int = 100_000,
        turn: AbstractContextManager[object] | None = None,
    ) -> None:
        """turn: entered for each write, where several processes write to `out`."""
        self._out = out
        self._style = style
        self._limit = limit
        self._turn = turn or nullcontext()
        self._batches: queue.SimpleQueue[_Batch] = queue.SimpleQueue()
        self._queued = 0
        self._written = 0
        self._lost = 0
        self._failing = False
        self._thread = threading.Thread(target=self._write, name="access-log", daemon=True)
        self._thread.start()

    def add(self, lines: Sequence[AccessLine | MirrorLogEntry], told: bytes | None = None) -> None:
        """told: the lines `as_json`, where the caller has them so."""
        if self._queued - self._written + len(lines) > self._limit:
            self._lost += len(lines)
            return
        if self._style == "text":
            data = b"".join([_as_text(line) for line in lines])
        else:
            data = as_json(lines) if told is None else told
        if self._lost:
            data = _encoder.encode({"lost_access_lines": self._lost}) + b"\n" + data
            self._lost = 0
        self._queued += len(lines)
        self._batches.put(data)

    def flush(self) -> None:
        """Wait until everything so far is written."""
        done = threading.Event()
        self._batches.put(done)
        done.wait()

    def close(self) -> None:
        """Write everything, and end."""
        self._batches.put(None)
        self._thread.join()

    def _write(self) -> None:
        while (batch := self._batches.get()) is not None:
            if isinstance(batch, threading.Event):
                batch.set()
                continue
            try:
                with self._turn:
                    self._out.write(batch)
                    self._out.flush()
            except (OSError, ValueError) as exc:
                self._fail(exc)
            else:
                self._failing = False
            self._written += batch.count(b"\n")

    def _fail(self, why: Exception) -> None:
        """The disk under it is full, or its reader has gone: the thread goes on, for it may end."""
        if not self._failing:
            _log.error("access lines cannot be written and are late or lost: %s", why)
        self._failing = True


def in_one_line(text: str) -> str:
    """At most MAX_MESSAGE_CHARS characters, of which none ends the line or commands a terminal.

    A message can repeat what a client or a vendor sent.
    """
    if len(text) > MAX_MESSAGE_CHARS:
        text = text[:MAX_MESSAGE_CHARS] + "…"
    if text.isprintable():
        return text
    return "".join([one if one.isprintable() else ascii(one)[1:-1] for one in text])


def as_json(lines: Sequence[AccessLine | MirrorLogEntry]) -> bytes:
    """One JSON object a line, each with its line's end."""
    return _encoder.encode_lines(lines)


def _other_as_text(line: AccessLine) -> bytes:
    """The path is the client's: escaped, so that it cannot command the terminal."""
    colour = 32 if line.status < 400 else 33 if line.status < 500 else 31
    why = line.denied or line.error
    words = (line.method, ascii(line.path)[1:-1], line.actor, line.client, why)
    text = " ".join(filter(None, words))
    return f"\x1b[{colour}m{line.status}\x1b[0m {text} \x1b[2m{line.request_id}\x1b[0m\n".encode()


def _as_text(line: AccessLine | MirrorLogEntry) -> bytes:
    if isinstance(line, MirrorLogEntry):
        text = f"mirror {line.route} -> {line.mirror} {line.mirror_ms:.0f} ms {line.outcome}"
        return f"\x1b[2m{text} {line.mirror_of}\x1b[0m\n".encode()
    if line.method:
        return _other_as_text(line)
    colour = 32 if line.status < 400 else 33 if line.status < 500 else 31
    tried = f" after {len(line.attempts)} attempts" if len(line.attempts) > 1 else ""
    tokens = ""
    if line.completion_tokens is not None:
        tokens = f" {line.prompt_tokens or 0}+{line.completion_tokens} tokens"
    first = f" first {line.ttft_ms:.0f} ms" if line.ttft_ms is not None else ""
    where = f" -> {line.backend}" if line.backend else ""
    error = "".join([f" {one}" for one in (line.error, line.message) if one])
    return (
        f"\x1b[{colour}m{line.status}\x1b[0m {line.surface}/{line.task or '-'} "
        f"{line.model or '-'}{where} {line.ms:.0f} ms{first}{tokens}{tried}{error} "
        f"\x1b[2m{line.request_id}\x1b[0m\n"
    ).encode()
