"""Read an identity provider's documents over HTTP: where its keys are, and the keys."""

import asyncio
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from adapters.base import Outbound
from gateway.clock import now
from gateway.config.schema.connection import Tls
from gateway.config.schema.identities import Issuer
from gateway.upstream.httpx_transport import HttpxTransport
from schemas.errors import InvalidConfig, UpstreamError

FETCH_S: Final = 5.0
"""Timeout of the documents of one issuer together."""

MOST_BYTES: Final = 512 * 1024
_DISCOVERY: Final = "/.well-known/openid-configuration"


class DocumentError(Exception):
    """A document cannot be had, or not be used; the text says why."""


class _Discovery(Struct, frozen=True, kw_only=True):
    """https://openid.net/specs/openid-connect-discovery-1_0.html#ProviderMetadata"""

    issuer: str
    jwks_uri: str


_discovery = msgspec.json.Decoder(_Discovery)


class IssuerDocuments:
    """Of one issuer. Raises InvalidConfig for certificates or a proxy that cannot be used."""

    def __init__(self, settings: Issuer) -> None:
        self._settings = settings
        proxy = settings.proxy
        self._connect = partial(
            HttpxTransport,
            name=f"auth.jwt {settings.name}",
            tls=Tls(ca_file=settings.ca_file),
            max_connections=1,
            proxy=None if proxy is None else proxy.reveal(),
            idle_s=5.0,
        )
        first = _origin(settings.jwks_uri or settings.issuer)
        self._transports = {first: self._connect(first)}

    async def key_set(self) -> bytes:
        """Return the JSON Web Key Set. Raises DocumentError."""
        by = now() + FETCH_S
        return await self._read(self._settings.jwks_uri or await self._discovered(by), by)

    async def aclose(self) -> None:
        for transport in self._transports.values():
            await transport.aclose()

    async def _discovered(self, by: float) -> str:
        issuer = self._settings.issuer
        url = issuer.rstrip("/") + _DISCOVERY
        try:
            found = _discovery.decode(await self._read(url, by))
        except msgspec.DecodeError as exc:
            raise DocumentError(f"{url} is not a discovery document: {exc}") from exc
        if found.issuer != issuer:
            raise DocumentError(
                f"{url} names the issuer {found.issuer[:200]!r}; auth.jwt[].issuer has to be the "
                "same, letter by letter"
            )
        if urlsplit(issuer).scheme == "https" != urlsplit(found.jwks_uri).scheme:
            raise DocumentError(f"{url} names keys that are not at an https address")
        return found.jwks_uri

    async def _read(self, url: str, by: float) -> bytes:
        """Redirects are not followed: an issuer's documents are where it says."""
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = (("accept", "application/json"),)
        outbound = Outbound(target=target, headers=headers, body=b"", method="GET")
        try:
            transport = await self._transport(_origin(url))
            reply = await transport.exchange(outbound, connect_by=by, head_by=by)
            try:
                if reply.status != 200:
                    raise DocumentError(f"{url} answered {reply.status}")
                return await reply.body(by, MOST_BYTES)
            finally:
                await reply.aclose()
        except (UpstreamError, InvalidConfig) as exc:
            raise DocumentError(f"{url}: {exc.logged}") from exc

    async def _transport(self, origin: str) -> HttpxTransport:
        """Discovery may name keys on another host; reading certificates takes 50 ms."""
        found = self._transports.get(origin)
        if found is None:
            for old in list(self._transports)[1:]:
                await self._transports.pop(old).aclose()
            found = await asyncio.to_thread(self._connect, origin)
            self._transports[origin] = found
        return found


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
