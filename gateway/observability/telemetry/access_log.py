"""The line of each request, groups of lines that count alike, and the log of all lines.

Metrics and series count each group once. Under load nearly all requests of a batch are of one
group, which costs a third of counting lines. A thread writes the log, so a slow reader of it
blocks no request.
"""

import logging
import queue
import threading
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import BinaryIO

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.observability.telemetry.logs import Style, painted
from strowger_gateway.gateway.observability.telemetry.mirror_log_entry import MirrorLogEntry
from strowger_gateway.gateway.routing.request_record import AttemptRecord
from strowger_gateway.gateway.storage.sql.rows import Attribute, RecordedFields, Source

MAX_MESSAGE_CHARS = 500
"""Characters of an error message or a field path in a line, at most."""

CELL_S = 5
"""Seconds of the shortest interval in which requests are counted: a group is within one."""

_NO_ATTEMPT = AttemptRecord(backend="")
_MOST_GATHERED = 16
"""Calls of `add` until the thread gets their lines without `hand_over`."""

_encoder = msgspec.json.Encoder()
_log = logging.getLogger("strowger")
_DIM = 2


class AccessLine(RecordedFields, frozen=True, omit_defaults=True, gc=False):
    """The line of one request: what is recorded, and what only the log has.

    usage_source: `reported` by the backend, or `estimated` from the prompt and the content that
                  arrived, if the attempt ended before the usage did.
    client_address: the address that the request came from.
    client_certificate: the subject of its TLS certificate, or a name of it.
    denied:       why it got 401 or 403: the message of the response.
    method, path, actor: of a request to /admin, of one that was rejected before an API read it,
                  or of one to an unknown path.
                  actor: the `admin key` or a browser's `session`; "" if unknown.
    unpriced:     tokens were used, and `prices` has rows but none for this backend.
    cost_reported: the vendor's answer stated the cost; otherwise it is computed from `prices`.
    repaired:     what was changed so that the backend accepts the request, as `PATH:RULE`.
    service_tier: in which the answer was served, if it is not the vendor's standard one.
    """

    client_address: str = ""
    denied: str = ""
    attempts: tuple[AttemptRecord, ...] = ()
    dropped: tuple[str, ...] = ()
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    reasoning_tokens: int | None = None
    usage_source: Source = ""
    unpriced: bool = False
    cost_reported: bool = False
    client_certificate: str = ""
    guardrails: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()
    service_tier: str = ""
    method: str = ""
    path: str = ""
    actor: str = ""


class LineGroup(Struct, frozen=True, gc=False):
    """Lines, at least one, that have the same labels in every metric, and end in the same cell.

    A request with several attempts is alone in its group.

    ms, first_ms: all durations, and those until the first content, in milliseconds.
    """

    lines: list[AccessLine]
    ms: list[float]
    first_ms: list[float]
    prompt_tokens: int
    completion_tokens: int


def grouped(lines: Iterable[AccessLine]) -> Sequence[LineGroup]:
    """Group the lines of a batch, in the order of the first of each group."""
    alike: dict[object, list[AccessLine]] = {}
    for line in lines:
        attempts = line.attempts
        if len(attempts) > 1:
            alike[len(alike)] = [line]
            continue
        attempt = attempts[0] if attempts else _NO_ATTEMPT
        key = (
            line.time // CELL_S,
            line.surface,
            line.route,
            line.status,
            line.error,
            line.usage_source,
            line.unpriced,
            line.experiment,
            line.variant,
            line.fallback,
            line.team,
            attempt.pattern or attempt.backend,
            attempt.outcome,
            attempt.refused,
            attempt.role,
        )
        found = alike.get(key)
        if found is None:
            alike[key] = [line]
        else:
            found.append(line)
    return [_group(found) for found in alike.values()]


def as_json(lines: Sequence[AccessLine | MirrorLogEntry]) -> bytes:
    """Encode one JSON object per line, each with a line break."""
    return _encoder.encode_lines(lines)


def in_one_line(text: str) -> str:
    """Shorten to MAX_MESSAGE_CHARS characters and escape line breaks and terminal control codes.

    A message can quote what a client or a vendor sent.
    """
    if len(text) > MAX_MESSAGE_CHARS:
        text = text[:MAX_MESSAGE_CHARS] + "…"
    if text.isprintable():
        return text
    return "".join([one if one.isprintable() else ascii(one)[1:-1] for one in text])


_Batch = tuple[list[bytes], int] | threading.Event | None
"""Lines as text with their number; an event to set when all before it are written; `None`: end."""


class AccessLog:
    """Encode lines on the event loop, in batches; a thread writes them.

    Call `hand_over` within the time that lines may wait. A blocked reader of the log fills the
    queue. Beyond `limit` lines, lines are dropped, and their number is logged as soon as the queue
    has room again.
    """

    def __init__(
        self,
        out: BinaryIO,
        style: Style,
        *,
        colours: bool = False,
        limit: int = 100_000,
        turn: AbstractContextManager[object] | None = None,
    ) -> None:
        """colours: of the style `console`.

        turn: a lock to hold during each write, if several processes write to `out`."""
        self._out = out
        self._style = style
        self._colours = colours
        self._limit = limit
        self._turn = turn or nullcontext()
        self._batches: queue.SimpleQueue[_Batch] = queue.SimpleQueue()
        self._gathered: list[bytes] = []
        self._gathered_lines = 0
        self._queued = 0
        self._written = 0
        self._lost = 0
        self._failing = False
        self._thread = threading.Thread(target=self._write, name="access-log", daemon=True)
        self._thread.start()

    def add(
        self, lines: Sequence[AccessLine | MirrorLogEntry], encoded: bytes | None = None
    ) -> None:
        """Queue lines. encoded: the lines `as_json`, if the caller has them already."""
        if self._queued - self._written + len(lines) > self._limit:
            self._lost += len(lines)
            return
        if self._style == "console":
            data = b"".join([_as_text(line, self._colours) for line in lines])
        else:
            data = as_json(lines) if encoded is None else encoded
        if self._lost:
            data = self._lost_lines() + data
            self._lost = 0
        self._queued += len(lines)
        self._gathered_lines += len(lines)
        self._gathered.append(data)
        if len(self._gathered) >= _MOST_GATHERED:
            self.hand_over()

    def hand_over(self) -> None:
        """Let the thread write the queued lines.

        Not for each call of `add`: every hand-over wakes the thread, which competes with the event
        loop for the interpreter lock.
        """
        if self._gathered:
            self._batches.put((self._gathered, self._gathered_lines))
            self._gathered, self._gathered_lines = [], 0

    def flush(self) -> None:
        """Wait until all queued lines are written."""
        self.hand_over()
        done = threading.Event()
        self._batches.put(done)
        done.wait()

    def close(self) -> None:
        """Write all queued lines and stop the thread."""
        self.hand_over()
        self._batches.put(None)
        self._thread.join()

    def _lost_lines(self) -> bytes:
        if self._style == "console":
            return f"{self._lost} lines of the access log were lost\n".encode()
        return _encoder.encode({"lost_access_lines": self._lost}) + b"\n"

    def _write(self) -> None:
        while (batch := self._batches.get()) is not None:
            if isinstance(batch, threading.Event):
                batch.set()
                continue
            texts, lines = batch
            try:
                with self._turn:
                    self._out.writelines(texts)
                    self._out.flush()
            except (OSError, ValueError) as exc:
                self._fail(exc)
            else:
                self._failing = False
            self._written += lines

    def _fail(self, why: Exception) -> None:
        """Log the first of several failures. The thread continues: the disk may get space again."""
        if not self._failing:
            _log.error("cannot write the access log, lines are late or lost: %s", why)
        self._failing = True


def _group(lines: list[AccessLine]) -> LineGroup:
    return LineGroup(
        lines,
        [line.ms for line in lines],
        [line.ttft_ms for line in lines if line.ttft_ms is not None],
        sum([line.prompt_tokens or 0 for line in lines]),
        sum([line.completion_tokens or 0 for line in lines]),
    )


def _status_as_text(status: int, colours: bool) -> str:
    colour = 32 if status < 400 else 33 if status < 500 else 31
    return painted(str(status), colour, colours=colours)


def _other_as_text(line: AccessLine, colours: bool) -> bytes:
    """The client chose the path: it is escaped, so that it cannot control the terminal."""
    why = line.denied or line.error
    words = (line.method, ascii(line.path)[1:-1], line.actor, line.client_address, why)
    text = " ".join(filter(None, words))
    name = painted(line.request_id, _DIM, colours=colours)
    return f"{_status_as_text(line.status, colours)} {text} {name}\n".encode()


def _as_text(line: AccessLine | MirrorLogEntry, colours: bool) -> bytes:
    if isinstance(line, MirrorLogEntry):
        text = f"mirror {line.route} -> {line.mirror} {line.mirror_ms:.0f} ms {line.outcome}"
        return f"{painted(f'{text} {line.mirror_of}', _DIM, colours=colours)}\n".encode()
    if line.method:
        return _other_as_text(line, colours)
    tried = f" after {len(line.attempts)} attempts" if len(line.attempts) > 1 else ""
    tokens = ""
    if line.completion_tokens is not None:
        tokens = f" {line.prompt_tokens or 0}+{line.completion_tokens} tokens"
    first = f" first {line.ttft_ms:.0f} ms" if line.ttft_ms is not None else ""
    where = f" -> {line.backend}" if line.backend else ""
    if line.cache == "hit":
        where += " (cached)"
    error = "".join([f" {one}" for one in (line.error, line.message) if one])
    error += "".join([f" {name}={_value(one)}" for name, one in (line.attributes or {}).items()])
    return (
        f"{_status_as_text(line.status, colours)} {line.surface}/{line.task or '-'} "
        f"{in_one_line(line.model) or '-'}{where} {line.ms:.0f} ms{first}{tokens}{tried}{error} "
        f"{painted(line.request_id, _DIM, colours=colours)}\n"
    ).encode()


def _value(attribute: Attribute) -> str:
    return in_one_line(attribute) if isinstance(attribute, str) else f"{attribute}"
