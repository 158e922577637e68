"""One structured line a request, written in batches off the request path."""

import asyncio
import queue
import threading
from typing import BinaryIO, Literal

import msgspec
from msgspec import Struct

from gateway.routing.trip import Attempt

_FLUSH_S = 0.2
_encode = msgspec.json.Encoder().encode


class AccessLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened to one request. Times in milliseconds; `time` in Unix seconds.

    status:       499 where the client hung up.
    usage_source: `reported` by the backend, `counted` by the engine, or `estimated` from the
                  pieces of content that went out, where the answer ended before usage came.
    """

    time: float
    request_id: str
    surface: str
    status: int
    ms: float
    client_request_id: str = ""
    key: str = ""
    task: str = ""
    model: str = ""
    route: str = ""
    backend: str = ""
    variant: str = ""
    stream: bool = False
    error: str = ""
    ttft_ms: float | None = None
    attempts: tuple[Attempt, ...] = ()
    dropped: tuple[str, ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    usage_source: str = ""


_Batch = list[AccessLine] | threading.Event | None
"""Lines to write; an event to set; `None` to end."""


class AccessLog:
    """Takes lines on the event loop; a thread encodes and writes them.

    A blocked reader of the log fills the queue: beyond `limit` lines they are dropped and their
    number is written once there is room again.
    """

    def __init__(
        self, out: BinaryIO, style: Literal["json", "text"], *, limit: int = 100_000
    ) -> None:
        self._out = out
        self._style = style
        self._limit = limit
        self._lines: list[AccessLine] = []
        self._timer: asyncio.TimerHandle | None = None
        self._batches: queue.SimpleQueue[_Batch] = queue.SimpleQueue()
        self._waiting = 0
        self._lost = 0
        self._thread = threading.Thread(target=self._write, name="access-log", daemon=True)
        self._thread.start()

    def add(self, line: AccessLine) -> None:
        if self._waiting + len(self._lines) >= self._limit:
            self._lost += 1
            return
        self._lines.append(line)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_S, self.flush)

    def flush(self) -> None:
        """Hand what was collected to the writer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lines:
            self._waiting += len(self._lines)
            self._batches.put(self._lines)
            self._lines = []

    def settle(self) -> None:
        """Wait until the writer has written what was flushed."""
        done = threading.Event()
        self._batches.put(done)
        done.wait()

    def close(self) -> None:
        """Flush, and wait until everything is written."""
        self.flush()
        self._batches.put(None)
        self._thread.join()

    def _write(self) -> None:
        render = _as_text if self._style == "text" else _as_json
        while (batch := self._batches.get()) is not None:
            if isinstance(batch, threading.Event):
                batch.set()
                continue
            data = b"".join([render(line) for line in batch])
            lost, self._lost = self._lost, 0
            if lost:
                data += _encode({"lost_access_lines": lost}) + b"\n"
            self._out.write(data)
            self._out.flush()
            self._waiting -= len(batch)


def _as_json(line: AccessLine) -> bytes:
    return _encode(line) + b"\n"


def _as_text(line: AccessLine) -> bytes:
    colour = 32 if line.status < 400 else 33 if line.status < 500 else 31
    tried = f" after {len(line.attempts)} attempts" if len(line.attempts) > 1 else ""
    tokens = ""
    if line.completion_tokens is not None:
        tokens = f" {line.prompt_tokens or 0}+{line.completion_tokens} tokens"
    first = f" first {line.ttft_ms:.0f} ms" if line.ttft_ms is not None else ""
    where = f" -> {line.backend}" if line.backend else ""
    error = f" {line.error}" if line.error else ""
    return (
        f"\x1b[{colour}m{line.status}\x1b[0m {line.surface}/{line.task or '-'} "
        f"{line.model or '-'}{where} {line.ms:.0f} ms{first}{tokens}{tried}{error} "
        f"\x1b[2m{line.request_id}\x1b[0m\n"
    ).encode()
