"""The general transport: httpx, for HTTP/2, proxies and everything off the hot path.

Three differences from our own client. A chunk is one HTTP chunk, not all that has arrived. A
request on a connection that the server is closing is UpstreamBroken, never sent again: httpx
neither reports whether a byte of an answer has arrived nor allows asking for a fresh connection.
And a socket that connects at the moment of its cancellation is closed only by the garbage
collector, because anyio's connect_tcp loses track of it.
"""

import asyncio
import importlib.util
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Protocol, cast

import httpx

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.gateway.backends.upstream.origin import origin_of
from strowger_gateway.gateway.backends.upstream.own_limits import (
    closing,
    in_use,
    own_wait,
    shortage,
    shortage_behind,
)
from strowger_gateway.gateway.backends.upstream.request_validation import check
from strowger_gateway.gateway.backends.upstream.sending import UNWATCHED, Sending
from strowger_gateway.gateway.backends.upstream.socket_options import SOCKET_OPTIONS
from strowger_gateway.gateway.backends.upstream.tls import client_context
from strowger_gateway.gateway.backends.upstream.transport import (
    UNCLAIMED,
    AnswerTooLarge,
    Step,
    relay_chunks,
)
from strowger_gateway.gateway.backends.upstream.wire.faults import unsent
from strowger_gateway.gateway.backends.upstream.wire.http_message import Limits, ReplyHeaders
from strowger_gateway.gateway.config.schema.config import Tls
from strowger_gateway.gateway.platform.eventloop.inline_task import in_task
from strowger_gateway.gateway.platform.fair_slots import FairSlots
from strowger_gateway.gateway.platform.room import Room
from strowger_gateway.schemas.errors import (
    GatewayError,
    InvalidConfig,
    UpstreamBroken,
    UpstreamError,
    UpstreamSilent,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from strowger_gateway.schemas.holdings import ANONYMOUS, AT_ONCE, LEVEL, Holder

FAILED = "the exchange failed"
STREAMS = 100
"""Exchanges at a time on a connection of HTTP/2: the usual limit of servers, and httpcore's."""

_LIMITS = Limits()


class HttpxTransport:
    """See strowger_gateway.gateway.backends.upstream.transport.Transport. Sends no headers that
    httpx adds by default.

    proxy: http://, https:// or socks5://, optionally with a user name and password.
    http2: offer HTTP/2 by ALPN; requires the package h2.
    Raises InvalidConfig for settings that cannot be used.
    """

    def __init__(
        self,
        base_url: str,
        *,
        name: str,
        tls: Tls | None = None,
        max_connections: int = 512,
        proxy: str | None = None,
        http2: bool = False,
        idle_s: float = 60.0,
    ) -> None:
        self._origin = origin_of(base_url, upstream=name)
        self._name = name
        self._closed = False
        self._slots = FairSlots(max_connections * (STREAMS if http2 else 1))
        if http2 and importlib.util.find_spec("h2") is None:
            raise InvalidConfig((f"{name}: HTTP/2 needs the package h2 (httpx[http2]).",))
        try:
            self._httpx = httpx.AsyncHTTPTransport(
                verify=client_context(tls, upstream=name),
                trust_env=False,
                http2=http2,
                limits=httpx.Limits(
                    max_connections=max_connections,
                    max_keepalive_connections=max_connections,
                    keepalive_expiry=idle_s,
                ),
                socket_options=SOCKET_OPTIONS,
                proxy=httpx.Proxy(proxy) if proxy is not None else None,
            )
        except (ValueError, ImportError, httpx.InvalidURL) as exc:
            # the text of these errors contains the URL, and so the password
            problem = f"{name}: proxy must be an http://, https:// or socks5:// URL"
            raise InvalidConfig((f"{problem}; socks5 needs the package socksio.",)) from exc

    def __repr__(self) -> str:
        return f"HttpxTransport({self._name!r})"

    async def exchange(
        self,
        outbound: Outbound,
        *,
        connect_by: float,
        head_by: float,
        lines: bytes = b"",
        sending: Sending = UNWATCHED,
        holder: Holder = ANONYMOUS,
        level: int = LEVEL,
    ) -> "HttpxReply":
        """See Transport."""
        check(outbound)
        if not self._slots.take(holder):
            if level == AT_ONCE:
                raise in_use(self._name, at_bound=self._slots.at_bound(holder))
            await self._queue(connect_by, holder, level, sending)
        done = partial(self._done, holder)
        if self._closed:
            await done()
            raise closing(self._name)
        try:
            response = await self._send(outbound, connect_by, head_by, lines, sending)
        except BaseException:
            await done()
            raise
        headers = ReplyHeaders.of(response.headers.raw)
        reply = HttpxReply(response, headers, self._name, done)
        problem = headers.fault(_LIMITS, response.status_code)
        if problem is not None:
            await reply.aclose()
            raise UpstreamBroken(problem, upstream=self._name)
        return reply

    async def aclose(self) -> None:
        """See Transport. Idle connections are closed only with the last busy one, too."""
        self._closed = True
        if not self._slots.held:
            await self._httpx.aclose()

    async def _queue(self, by: float, holder: Holder, level: int, sending: Sending) -> None:
        """Wait for a slot. Raises ConnectionsInUse at `by`."""
        try:
            with own_wait(sending):
                await self._slots.acquire(holder, level=level, by=by)
        except TimeoutError as exc:
            raise in_use(self._name, at_bound=self._slots.at_bound(holder)) from exc

    async def _done(self, holder: Holder) -> None:
        self._slots.release(holder)
        if self._closed:
            await self.aclose()

    async def _send(
        self,
        outbound: Outbound,
        connect_by: float,
        head_by: float,
        lines: bytes,
        sending: Sending,
    ) -> httpx.Response:
        await in_task()
        scope = asyncio.timeout_at(min(connect_by, head_by))
        progress = _Progress(scope, head_by, sending)
        try:
            async with scope:
                request = self._request(outbound, lines, progress)
                return await self._httpx.handle_async_request(request)
        except (httpx.HTTPError, OSError) as exc:
            if isinstance(exc, TimeoutError) and scope.expired():
                raise self._late(progress) from exc
            own = None if progress.sent else shortage_behind(exc)
            if own is not None:
                raise shortage(self._name, own) from exc
            kind = UpstreamBroken if progress.sent else UpstreamUnreachable
            raise kind(FAILED, upstream=self._name, detail=_reason(exc)) from exc

    def _request(self, outbound: Outbound, lines: bytes, progress: "_Progress") -> httpx.Request:
        origin = self._origin
        fixed = (
            ("host", origin.authority),
            *outbound.headers,
            *_pairs(lines),
            ("accept-encoding", "identity"),
            ("content-length", str(len(outbound.body))),
        )
        return httpx.Request(
            outbound.method,
            httpx.URL(f"{origin.scheme}://{origin.authority}{outbound.target}"),
            headers=httpx.Headers(fixed, encoding="latin-1"),
            content=outbound.body,
            extensions={"trace": progress.trace},
        )

    def _late(self, progress: "_Progress") -> GatewayError:
        if progress.sent:
            return UpstreamSilent("the answer did not begin in time", upstream=self._name)
        if progress.dialled:
            problem = "no connection in time (DNS, TCP and TLS together)"
            return UpstreamTimeout(problem, upstream=self._name)
        return unsent(self._name, late=True)


class HttpxReply:
    """See strowger_gateway.gateway.backends.upstream.transport.Reply."""

    def __init__(
        self,
        response: httpx.Response,
        headers: Mapping[str, str],
        upstream: str,
        done: Callable[[], Awaitable[None]],
    ) -> None:
        self.status = response.status_code
        self.headers = headers
        self._upstream = upstream
        self._done = done
        self._stream = cast("httpx.AsyncByteStream", response.stream)
        self._parts = cast("AsyncGenerator[bytes, None]", aiter(self._stream))
        self._error: UpstreamError | None = None
        self._closed = False

    async def chunk(self, by: float) -> bytes:
        """See Reply."""
        if self._closed:
            raise GatewayError("the answer was read after it was closed")
        if self._error is not None:
            raise self._error
        scope = asyncio.timeout_at(by)
        try:
            if by <= asyncio.get_running_loop().time():
                raise TimeoutError
            async with scope:
                return await anext(self._parts, b"")
        except (httpx.HTTPError, OSError) as exc:
            if isinstance(exc, TimeoutError):
                self._error = UpstreamSilent("the answer stalled", upstream=self._upstream)
            else:
                self._error = UpstreamBroken(FAILED, upstream=self._upstream, detail=_reason(exc))
            await self._stream.aclose()
            raise self._error from exc

    async def relay(self, step: Step, by: float) -> None:
        """See Reply."""
        await relay_chunks(self, step, by)

    async def body(self, by: float, limit: int, room: Room | None = None) -> bytes:
        """See Reply."""
        parts: list[bytes] = []
        size = claimed = 0
        while part := await self.chunk(by):
            size += len(part)
            if size > limit:
                problem = f"the answer is over {limit} bytes"
                raise AnswerTooLarge(problem, upstream=self._upstream)
            if room is not None and size > UNCLAIMED:
                room.buffer(size - claimed)
                claimed = size
            parts.append(part)
        return b"".join(parts)

    async def aclose(self) -> None:
        """See Reply."""
        if not self._closed:
            self._closed = True
            try:
                await self._stream.aclose()
            finally:
                await self._done()


class _Socket(Protocol):
    async def aclose(self) -> None: ...


class _Progress:
    """Progress of a request, from httpx's trace; sending moves the deadline to `head_by`.

    httpcore leaves the socket open if it is cancelled during the TLS handshake (it closes on
    Exception, and a cancellation is not one), so this closes it.
    """

    def __init__(self, scope: asyncio.Timeout, head_by: float, sending: Sending) -> None:
        self.dialled = self.sent = False
        self._sending = sending
        self._socket: _Socket | None = None
        self._scope = scope
        self._head_by = head_by

    async def trace(self, event: str, info: Mapping[str, object]) -> None:
        """https://www.python-httpx.org/advanced/extensions/#trace"""
        if event.endswith("connect_tcp.started"):
            self.dialled = True
        elif event.endswith("connect_tcp.complete"):
            self._socket = cast("_Socket", info["return_value"])
        elif event.endswith("start_tls.failed") and self._socket is not None:
            await self._socket.aclose()
        elif event.endswith("send_request_headers.started") and not self._scope.expired():
            # the CONNECT request opens a proxy's tunnel; the real request follows
            if getattr(info["request"], "method", b"") == b"CONNECT":
                return
            self.sent, self._sending.unread = True, False
            self._scope.reschedule(self._head_by)


def _reason(exc: Exception) -> str:
    """Return the reason for the log only, because the libraries' texts contain addresses."""
    return f"{FAILED}: {exc}" if str(exc) else f"{FAILED}: {type(exc).__name__}"


def _pairs(lines: bytes) -> Iterator[tuple[str, str]]:
    """Yield header lines as names and values."""
    for line in lines.decode("latin-1").split("\r\n")[:-1]:
        name, _, value = line.partition(": ")
        yield name, value
