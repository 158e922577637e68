"""Answer a client, whole, as a stream or with an error, for as long as it is connected.

`ResponseWriter` sends one answer, `SseKeepAlive` keeps proxies from cutting the silent ones, and
`DisconnectGuard` stops the work for a client that is gone.
"""

import asyncio
import math
from collections.abc import Coroutine, Iterable
from functools import lru_cache
from types import TracebackType
from typing import Final, Literal, Protocol
from urllib.parse import quote

from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.platform.eventloop.inline_task import (
    Canceller,
    canceller_in,
    in_task,
)
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.server.asgi.cors import Headers
from strowger_gateway.gateway.server.asgi.exchange import ClientGone, HotExchange
from strowger_gateway.schemas.errors import (
    BodyTooLarge,
    GatewayError,
    MethodNotAllowed,
    RequestTimeout,
    Unavailable,
    UnsupportedMediaType,
    UpgradeRefused,
)
from strowger_gateway.schemas.requests import Request

_JSON = (b"content-type", b"application/json")
_STREAM: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),  # Caddy's gzip holds a stream without the latter
    (b"x-accel-buffering", b"no"),
]
_FIELD_NAME = "!#$&'()*+/:;<=>?@[]^`{|}"
_MOST_NAMES = 100
SETTLED = 1 / 3
"""The part of the time before an early head for which the running attempt must have run."""
_LONGEST = 200
"""Maximum characters of one name: clients and proxies accept 8 KiB of headers, some less."""

EARLIEST_S: Final = 15.0
"""The shortest of the surfaces' own times before an early head, seconds."""

CommitAfter = float | Literal["auto"] | None
"""`server.commit_after_s`."""


class ClientNames(Protocol):
    """The client's names of fields; see
    strowger_gateway.gateway.surfaces.field_names.FieldNames.
    """

    def of(self, paths: Iterable[str], request: Request | None) -> list[str]: ...


class ResponseWriter:
    """The answer to one request. `begun` is true once a status line was sent.

    own_headers: those of every answer to this request, to add to. expose: send x-gateway-* headers.
    names: the client's names of dropped fields. request: `None` until it has been read.
    """

    __slots__ = (
        "_expose",
        "_names",
        "_record",
        "beginning",
        "busy",
        "exchange",
        "last_sent",
        "own_headers",
        "request",
        "started",
    )

    def __init__(
        self,
        exchange: HotExchange,
        record: RequestRecord,
        own_headers: Headers,
        names: ClientNames,
        *,
        expose: bool,
    ) -> None:
        self.request: Request | None = None
        self._names = names
        self.started = False
        self.busy = False
        self.beginning: asyncio.Task[None] | None = None
        self.last_sent = 0.0
        self.exchange = exchange
        self._record = record
        self.own_headers = own_headers
        self._expose = expose

    @property
    def request_id(self) -> str:
        return self._record.request_id

    async def whole(self, status: int, body: bytes, extra: Headers | None = None) -> None:
        """Send a complete answer, as JSON unless `extra` has another content-type."""
        headers = self._headers()
        if not extra:
            headers.append(_JSON)
        else:
            if not _names_type(extra):
                headers.append(_JSON)
            headers += extra
        headers.append((b"content-length", b"%d" % len(body)))
        self.started = True
        if self._record.payload is not None:
            self._record.payload.add(body, streamed=False)
        await self.exchange.whole(status, headers, body)

    async def empty(self, status: int, extra: Headers) -> None:
        """Send a head without a body."""
        await self._start(status, self._headers() + extra)
        await self._put(b"", more=False)

    async def error(self, error: GatewayError, body: bytes) -> None:
        """Send the error's status and envelope, and whether the client should retry.

        The gateway's own retries do not count against it: clients retry for longer.
        """
        extra: Headers = []
        if error.retry_after is not None:
            extra.append((b"retry-after", str(math.ceil(error.retry_after)).encode()))
        if not error.retry_helps:
            extra.append((b"x-should-retry", b"false"))
        if isinstance(error, MethodNotAllowed):
            extra.append((b"allow", ", ".join(error.allow).encode()))
        if isinstance(error, UpgradeRefused):
            extra.append((b"upgrade", b"HTTP/1.1"))
        if isinstance(error, BodyTooLarge | RequestTimeout | Unavailable) and error.status != 429:
            extra.append((b"connection", b"close"))
        if isinstance(error, UnsupportedMediaType) and error.param == "content-encoding":
            extra.append((b"accept-encoding", b"gzip, deflate"))
        if error.status == 401:
            extra.append((b"www-authenticate", b"Bearer"))
        await self.whole(error.status, body, extra)

    async def start(self, extra: Headers | None = None) -> None:
        """Send the head of a stream, of events unless `extra` has another content-type."""
        own = _STREAM[1:] if extra and _names_type(extra) else _STREAM
        await self._start(200, own + self._headers() + (extra or []))

    def may_begin(self, at: float, after_s: float) -> bool:
        """Whether the head of a stream may be sent without content. after_s: since the request.

        Not between two attempts, nor while one is so young that it may still fail at once: the
        status would be lost, by which clients know whether to retry.
        """
        record = self._record
        if at - record.started < after_s:
            return False
        if not record.attempts:
            return True
        return record.attempt_running and at - record.upstream_since >= after_s * SETTLED

    async def begin(self, sign: bytes, extra: Headers | None = None) -> None:
        """Send the head of a stream, and a frame that clients ignore. extra: see `start`."""
        await self.start(extra)
        await self.frame(sign)

    async def begun(self) -> None:
        """Wait until a head that is being sent early has gone."""
        if self.beginning is not None:
            await in_task()
            await asyncio.wait({self.beginning})

    async def frame(self, data: bytes) -> None:
        await self._put(data, more=True)

    def frame_now(self, data: bytes) -> bool:
        """Send a frame, as most of them, without a coroutine; false if `frame` has to wait."""
        if self.busy or not self.exchange.put_now(data):
            return False
        if self._record.payload is not None:
            self._record.payload.add(data, streamed=True)
        self.last_sent = now()
        return True

    async def end(self, data: bytes) -> None:
        await self._put(data, more=False)

    async def _start(self, status: int, headers: Headers) -> None:
        self.started = True
        await self.exchange.start(status, headers)

    async def _put(self, data: bytes, *, more: bool) -> None:
        self.busy = True
        if data and self._record.payload is not None:
            self._record.payload.add(data, streamed=True)
        try:
            await self.exchange.put(data, more=more)
        finally:
            self.busy = False
            self.last_sent = now()

    def _headers(self) -> Headers:
        record = self._record
        own_id, client_id = record.request_id.encode(), record.client_request_id
        headers = [(b"x-request-id", client_id.encode() if client_id else own_id)]
        if self._expose:
            headers.append((b"x-gateway-request-id", own_id))
            if record.attempts:
                at = now()
                backend = record.upstream_ms(at)
                gateway = (at - record.started) * 1e3 - backend
                times = gateway if gateway > 0.0 else 0.0, backend  # noqa: FURB136  a call less
                shown = record.participation.shown
                if shown:
                    backend_name = record.backend.encode("latin-1", "replace")
                    headers.append((b"x-gateway-backend", backend_name))
                headers += (
                    (b"x-gateway-attempts", b"%d" % record.attempts_sent),
                    (b"server-timing", b"gateway;dur=%.2f, backend;dur=%.2f" % times),
                )
                if shown and len(record.attempts) > 1 and (hedged := record.hedged):
                    both = ", ".join(hedged).encode("latin-1", "replace")
                    headers.append((b"x-gateway-hedged", both))
            part = record.participation
            if part.variant and part.shown:
                headers.append((b"x-gateway-experiment", part.experiment.encode()))
                headers.append((b"x-gateway-variant", part.variant.encode()))
            elif part.replayed:
                headers.append((b"x-gateway-replay", part.replayed.encode()))
        if record.dropped:
            # The client chooses a field's name, so it may contain line breaks and commas.
            given = [name[:_LONGEST] for name in record.dropped[:_MOST_NAMES]]
            names = [_quoted(name) for name in self._names.of(given, self.request)]
            if more := len(record.dropped) - len(given):
                names.append(f"and-{more}-more")
            headers.append((b"x-gateway-dropped-params", ", ".join(names).encode()))
        if record.defaulted:
            headers.append((b"x-gateway-defaulted-params", ", ".join(record.defaulted).encode()))
        if record.repaired or record.repaired_body:
            headers.append((b"x-gateway-repairs", self._repairs(record)))
        if self.own_headers:
            headers += self.own_headers
        return headers

    def _repairs(self, record: RequestRecord) -> bytes:
        """The value of `x-gateway-repairs`: `PATH:RULE`, with the client's path, or only `RULE`."""
        given = record.repairs
        shown: list[str] = []
        for one in given[:_MOST_NAMES]:
            path, _, rule = one.rpartition(":")
            names = self._names.of([path[:_LONGEST]], self.request) if path else [""]
            shown += [f"{_quoted(name)}:{rule}" if name else rule for name in names]
        if more := len(given) - _MOST_NAMES:
            shown += [f"and-{more}-more"] if more > 0 else []
        return ", ".join(dict.fromkeys(shown)).encode()


class SseKeepAlive:
    """Keep streams alive without content: send their heads if they are late, then comments.

    Proxies cut a silent connection: nginx and AWS's load balancer after 60 s, Cloudflare after 100.
    One timer for all streams sweeps every quarter of the shorter time, if there are any.
    """

    def __init__(self, silence_s: float, commit_after_s: CommitAfter) -> None:
        self._streams: dict[ResponseWriter, tuple[bytes, float, Headers | None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self.configure(silence_s, commit_after_s)

    def configure(self, silence_s: float, commit_after_s: CommitAfter) -> None:
        """Change `server.sse_keepalive_s` and `server.commit_after_s`."""
        self._silence_s = silence_s
        self._commit_after_s: CommitAfter = commit_after_s
        self._every_s = min(silence_s, begin_after(commit_after_s, EARLIEST_S)) / 4

    def add(
        self, stream: ResponseWriter, sign: bytes, own_s: float, extra: Headers | None = None
    ) -> None:
        """Watch a stream until `remove`.

        sign: a frame that its clients ignore. own_s: see `begin_after`. extra: see
        `ResponseWriter.start`.
        """
        self._streams[stream] = sign, own_s, extra
        if self._timer is None:
            self._wait()

    def remove(self, stream: ResponseWriter) -> None:
        self._streams.pop(stream, None)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._every_s, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        at = now()
        before = at - self._silence_s
        for stream, (sign, own_s, extra) in self._streams.items():
            if not stream.started:
                after_s = begin_after(self._commit_after_s, own_s)
                if stream.beginning is None and stream.may_begin(at, after_s):
                    stream.beginning = self._send(stream.begin(sign, extra))
            elif stream.last_sent <= before and not stream.busy:
                self._send(stream.frame(sign))
        if self._streams:
            self._wait()

    def _send(self, sending: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(sending)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        return task


def begin_after(setting: CommitAfter, own_s: float) -> float:
    """Return the seconds without content after which a head is sent; infinity for never.

    own_s: the surface's own time, for `auto`.
    """
    if setting == "auto":
        return own_s
    return math.inf if setting is None else setting


class DisconnectGuard:
    """While entered, a disconnect cancels the current work, and the block exits with ClientGone.

    Enter it after the body was read. Call `disarm` before the last byte of the answer; after that
    a disconnect is the normal end.
    """

    __slots__ = ("_armed", "_exchange", "_work", "gone")

    def __init__(self, exchange: HotExchange) -> None:
        self.gone = False
        self._exchange = exchange
        self._armed = True

    def __enter__(self) -> "DisconnectGuard":
        self._work: Canceller = canceller_in(self._exchange.turn)
        self._exchange.on_gone(self._cancel)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._armed = False
        self._exchange.on_gone(None)
        if self.gone and isinstance(error, asyncio.CancelledError):
            self._work.uncancel()
            raise ClientGone("the client closed the connection") from error

    def disarm(self) -> None:
        self._armed = False

    def _cancel(self) -> None:
        if self._armed and not self.gone:
            self.gone = True
            self._work.cancel()


@lru_cache(maxsize=256)
def _quoted(name: str) -> str:
    return quote(name, safe=_FIELD_NAME)


def _names_type(headers: Headers) -> bool:
    return any(name == b"content-type" for name, _ in headers)
