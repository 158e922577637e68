"""One exchange with an OpenTelemetry collector over OTLP/HTTP, and what its answer means."""

import asyncio
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.adapters.retry_after import retry_after
from strowger_gateway.gateway.backends.upstream.error_body import with_date
from strowger_gateway.gateway.backends.upstream.transport import Transport
from strowger_gateway.gateway.config.schema.telemetry import Otlp
from strowger_gateway.gateway.observability.otlp.protobuf import partial_success
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.errors import GatewayError

TIMEOUT_S: Final = 10.0
MAX_ANSWER: Final = 64 * 1024
CONNECTIONS: Final = 2
RETRYABLE: Final = frozenset({429, 502, 503, 504})
"""https://opentelemetry.io/docs/specs/otlp/#retryable-response-codes"""
MAX_WAIT_S: Final = 300.0
"""Longer waits that a collector asks for are capped."""


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of an export request.

    problem: "" if the collector has the items. again: the same request may be accepted later, in
    wait_s seconds if the collector says so. rejected: the items that it refuses for good, of a
    request that it accepted; reason: its words, also without any rejected.
    """

    problem: str = ""
    again: bool = False
    wait_s: float | None = None
    rejected: int = 0
    reason: str = ""


class CollectorClient:
    """Connections to one collector. Use it inside a running event loop."""

    def __init__(self, otlp: Otlp) -> None:
        parts = urlsplit(otlp.endpoint.rstrip("/"))
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._prefix = parts.path
        own = {name.lower(): value.reveal() for name, value in otlp.headers.items()}
        self._headers = (("content-type", "application/x-protobuf"), *own.items())
        self._transport: Transport | None = None
        self._opening = asyncio.Lock()

    async def post(self, path: str, body: bytes) -> Outcome:
        """Send an export request. path: of the signal, such as `/v1/traces`."""
        outbound = Outbound(target=self._prefix + path, headers=self._headers, body=body)
        try:
            transport = await self._connected()
            by = now() + TIMEOUT_S
            reply = await transport.exchange(outbound, connect_by=by, head_by=by)
            try:
                answer = await reply.body(by, MAX_ANSWER)
            finally:
                await reply.aclose()
        except GatewayError as exc:
            return Outcome(problem=exc.logged, again=True)
        if 200 <= reply.status < 300:
            rejected, reason = partial_success(answer)
            return Outcome(rejected=rejected, reason=reason)
        again = reply.status in RETRYABLE
        wait_s = retry_after(with_date(reply.headers)) if again else None
        return Outcome(
            problem=f"answered with status {reply.status}",
            again=again,
            wait_s=None if wait_s is None else min(wait_s, MAX_WAIT_S),
        )

    async def close(self) -> None:
        """Close the connections."""
        if self._transport is not None:
            await self._transport.aclose()

    async def _connected(self) -> Transport:
        """Reading certificates takes 50 ms, so a thread does it."""
        async with self._opening:
            if self._transport is None:
                self._transport = await asyncio.to_thread(self._open)
        return self._transport

    def _open(self) -> Transport:
        from strowger_gateway.gateway.backends.upstream.wire import WireTransport

        name = "OpenTelemetry collector"
        return WireTransport(self._origin, name=name, max_connections=CONNECTIONS)
