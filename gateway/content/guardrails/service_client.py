"""Post JSON to a service that guardrails ask."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.gateway.backends.upstream.transport import Transport
from strowger_gateway.gateway.backends.upstream.wire import WireTransport
from strowger_gateway.gateway.content.hooks.guards import ASKED_BY
from strowger_gateway.gateway.content.hooks.request_text import texts_of
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.requests import Request

_T = TypeVar("_T")

CONNECTIONS: Final = 64
MOST_BYTES: Final = 16 * 1024 * 1024
"""Of an answer: a longer one is not read."""
LONGEST_S: Final = 600.0
"""Of a call, if the guardrail's `timeout_s` does not end it before."""


class ServiceFailed(Exception):
    """The service answered with an error, or with something else than its API has."""


class ServiceClient:
    """Posts to one service."""

    def __init__(self, base_url: str, api_key: str, setting: str = "base_url") -> None:
        """setting: the name of the base URL. Raises ValueError for an invalid one."""
        parts = urlsplit(base_url.rstrip("/"))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{setting}: {base_url!r} is not an http:// or https:// URL")
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._prefix = parts.path
        key = (("authorization", f"Bearer {api_key}"),) if api_key else ()
        self._headers = (("content-type", "application/json"), *key)
        self._transport: Transport | None = None
        self._opening: asyncio.Lock | None = None

    async def post(self, path: str, body: object, kind: type[_T]) -> _T:
        """Return the answer. Raises ServiceFailed and UpstreamError."""
        target = self._prefix + path
        outbound = Outbound(target=target, headers=self._headers, body=msgspec.json.encode(body))
        transport = self._transport or await self._connected()
        by = now() + LONGEST_S
        holder, level = ASKED_BY.get()
        reply = await transport.exchange(
            outbound, connect_by=by, head_by=by, holder=holder, level=level
        )
        try:
            answer = await reply.body(by, MOST_BYTES)
        finally:
            await reply.aclose()
        if not 200 <= reply.status < 300:
            raise ServiceFailed(f"{target}: status {reply.status}")
        try:
            return msgspec.json.decode(answer, type=kind)
        except (msgspec.DecodeError, RecursionError):
            raise ServiceFailed(f"{target}: the answer is not what its API returns") from None

    async def aclose(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()

    async def _connected(self) -> Transport:
        """Reading certificates takes 50 ms, so a thread does it."""
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._transport is None:
                self._transport = await asyncio.to_thread(self._open)
        return self._transport

    def _open(self) -> Transport:
        return WireTransport(self._origin, name="guardrail", max_connections=CONNECTIONS)


async def texts_to_ask(request: Request, may_be: Callable[[str], bool]) -> list[str]:
    """The texts of a request that a service can say something about. may_be: is one of those."""
    return [*filter(may_be, await asyncio.to_thread(texts_of, request))]


def is_language(text: str) -> bool:
    """Whether a text may be language: it has a letter, and more than one word or character."""
    return len(text) > 1 and any(one.isalpha() for one in text)


def is_data(text: str) -> bool:
    """Whether a text may be personal data, such as the number of a card or a telephone."""
    return len(text) > 1 and any(one.isalnum() for one in text)
