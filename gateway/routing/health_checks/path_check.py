"""A GET at a path of a provider's server: is it there, and does it call itself healthy?"""

from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.adapters.retry_after import retry_after
from strowger_gateway.gateway.backends.discovery.addresses import parse
from strowger_gateway.gateway.backends.upstream.tls import TlsContexts
from strowger_gateway.gateway.backends.upstream.transport import AnswerTooLarge, Transport
from strowger_gateway.gateway.backends.upstream.wire import WireTransport
from strowger_gateway.gateway.backends.upstream.wire.dialing import resolve, resolve_at
from strowger_gateway.gateway.config.schema.config import Provider
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.errors import UpstreamBusy, UpstreamError, UpstreamFailed
from strowger_gateway.schemas.secret import Secret

LARGEST: Final = 1024 * 1024
"""Bytes of an answer that are read; more than that is an answer, too."""

_OF_A_KEY: Final = frozenset({401, 402, 403, 429})


async def get(
    provider: Provider, path: str, address: str, timeout_s: float, contexts: TlsContexts
) -> None:
    """Get the path at the origin of the provider's `base_url`, over a connection of its own.

    address: HOST:PORT of a replica; "" connects to the host of `base_url`. contexts: shared by
    checks, because making one blocks the event loop for 20 ms or more. A status that may be about a
    key says nothing of the backend while another key passes. Raises UpstreamError unless the status
    is 200 to 399.
    """
    by = now() + timeout_s
    keys = [one.key for one in provider.pooled_keys] or [provider.api_key]
    transport = _transport(provider, address, contexts)
    failure: UpstreamError | None = None
    try:
        for key in keys:
            status, wait = await _answered(transport, path, _headers(provider, key), by)
            if 200 <= status < 400:
                return
            error: UpstreamError = UpstreamFailed(
                f"{path} answers {status}", upstream=provider.name
            )
            if status == 429:
                error = UpstreamBusy(str(error), upstream=provider.name, retry_after=wait)
            if failure is None or status not in _OF_A_KEY:
                failure = error
            if status not in _OF_A_KEY:
                break
    finally:
        await transport.aclose()
    assert failure is not None
    raise failure


async def _answered(
    transport: Transport, path: str, headers: tuple[tuple[str, str], ...], by: float
) -> tuple[int, float | None]:
    """Return the status, and the seconds that the server asks to wait."""
    reply = await transport.exchange(
        Outbound(target=path, headers=headers, body=b"", method="GET"), connect_by=by, head_by=by
    )
    try:
        with suppress(AnswerTooLarge):
            await reply.body(by, LARGEST)
    finally:
        await reply.aclose()
    return reply.status, retry_after(reply.headers)


def _headers(provider: Provider, secret: Secret) -> tuple[tuple[str, str], ...]:
    """The provider's own headers, and a key as a bearer token."""
    headers = [(name, value.reveal()) for name, value in provider.headers.items()]
    key = secret.reveal()
    if key and not any(name.lower() == "authorization" for name, _ in headers):
        headers.append(("authorization", f"Bearer {key}"))
    return tuple(headers)


def _transport(provider: Provider, address: str, contexts: TlsContexts) -> Transport:
    url = urlsplit(provider.base_url or "")
    origin = f"{url.scheme}://{url.netloc}"
    if provider.proxy is not None:
        # Late, because httpx takes 6 MB.
        from strowger_gateway.gateway.backends.upstream.httpx_transport import HttpxTransport

        return HttpxTransport(
            origin,
            name=provider.name,
            tls=provider.tls,
            max_connections=1,
            proxy=provider.proxy.reveal(),
        )
    to = resolve
    if address:
        place = parse(address)
        to = resolve_at(place.host, place.port)
    return WireTransport(
        origin,
        name=provider.name,
        tls=provider.tls,
        max_connections=1,
        contexts=contexts,
        resolve=to,
    )
