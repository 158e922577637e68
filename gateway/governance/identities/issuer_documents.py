"""Read an identity provider's documents over HTTP: where its endpoints are, and its keys."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Struct

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.gateway.backends.upstream.httpx_transport import HttpxTransport
from strowger_gateway.gateway.config.schema.connection import Tls
from strowger_gateway.gateway.config.schema.identities import Issuer
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.errors import InvalidConfig, UpstreamError

FETCH_S: Final = 5.0
"""Timeout of the documents of one issuer together."""

MOST_BYTES: Final = 512 * 1024
_CONNECTIONS: Final = 4
_MOST_ORIGINS: Final = 2
"""Connected besides the issuer's own: keys and tokens may be at one host each."""

_FORM: Final = "application/x-www-form-urlencoded"
_DISCOVERY: Final = "/.well-known/openid-configuration"


class DocumentError(Exception):
    """A document cannot be had, or not be used; the text says why."""


class Discovery(Struct, frozen=True, kw_only=True):
    """What is read of it. "": the issuer has no such endpoint.

    https://openid.net/specs/openid-connect-discovery-1_0.html#ProviderMetadata
    authorization_response_iss_parameter_supported:
        https://www.rfc-editor.org/rfc/rfc9207#section-3
    """

    issuer: str
    jwks_uri: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


_discovery = msgspec.json.Decoder(Discovery)


class IssuerDocuments:
    """Of one issuer. Raises InvalidConfig for certificates or a proxy that cannot be used."""

    def __init__(
        self,
        settings: Issuer,
        *,
        place: str = "auth.jwt[]",
        fetch_s: float | None = None,
        posts: int = 0,
    ) -> None:
        """place: of the settings in the configuration. fetch_s: timeout of a call, or FETCH_S.

        posts: that run at a time; documents have connections besides theirs.
        """
        self._settings = settings
        self._place = place
        self._fetch_s = fetch_s
        proxy = settings.proxy
        self._connect = partial(
            HttpxTransport,
            name=f"{place.removesuffix('[]')} {settings.name}",
            tls=Tls(ca_file=settings.ca_file),
            max_connections=_CONNECTIONS + posts,
            proxy=None if proxy is None else proxy.reveal(),
            idle_s=5.0,
        )
        first = _origin(settings.jwks_uri or settings.issuer)
        self._transports = {first: self._connect(first)}

    async def key_set(self) -> bytes:
        """Return the JSON Web Key Set. Raises DocumentError."""
        by = now() + (self._fetch_s or FETCH_S)
        where = self._settings.jwks_uri or (await self._discovered(by)).jwks_uri
        return await self._read(where, by)

    async def discovery(self) -> Discovery:
        """Raises DocumentError."""
        return await self._discovered(now() + (self._fetch_s or FETCH_S))

    async def post(
        self, url: str, form: Mapping[str, str], headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        """Send a form to one of the issuer's endpoints. Return the status and the body.

        Raises DocumentError if there is no answer.
        """
        sent = {"accept": "application/json", "content-type": _FORM, **headers}
        body = urlencode(form).encode()
        by = now() + (self._fetch_s or FETCH_S)
        return await self._exchange(url, by, "POST", tuple(sent.items()), body)

    async def aclose(self) -> None:
        for transport in self._transports.values():
            await transport.aclose()

    async def _discovered(self, by: float) -> Discovery:
        issuer = self._settings.issuer
        url = issuer.rstrip("/") + _DISCOVERY
        try:
            found = _discovery.decode(await self._read(url, by))
        except msgspec.DecodeError as exc:
            raise DocumentError(f"{url} is not a discovery document: {exc}") from exc
        if found.issuer != issuer:
            raise DocumentError(
                f"{url} names the issuer {found.issuer[:200]!r}; {self._place}.issuer has to be "
                "the same, letter by letter"
            )
        for what, where in (
            ("keys", found.jwks_uri),
            ("an authorization endpoint", found.authorization_endpoint),
            ("a token endpoint", found.token_endpoint),
        ):
            if where and urlsplit(issuer).scheme == "https" != urlsplit(where).scheme:
                raise DocumentError(f"{url} names {what} not at an https address")
        return found

    async def _read(self, url: str, by: float) -> bytes:
        status, body = await self._exchange(url, by, "GET", (("accept", "application/json"),), b"")
        if status != 200:
            raise DocumentError(f"{url} answered {status}")
        return body

    async def _exchange(
        self, url: str, by: float, method: str, headers: tuple[tuple[str, str], ...], body: bytes
    ) -> tuple[int, bytes]:
        """Redirects are not followed: an issuer's documents are where it says."""
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        outbound = Outbound(target=target, headers=headers, body=body, method=method)
        try:
            transport = await self._transport(_origin(url))
            reply = await transport.exchange(outbound, connect_by=by, head_by=by)
            try:
                return reply.status, await reply.body(by, MOST_BYTES)
            finally:
                await reply.aclose()
        except (UpstreamError, InvalidConfig) as exc:
            raise DocumentError(f"{url}: {exc.logged}") from exc

    async def _transport(self, origin: str) -> HttpxTransport:
        """Discovery may name other hosts; reading certificates takes 50 ms."""
        found = self._transports.get(origin)
        if found is None:
            made = await asyncio.to_thread(self._connect, origin)
            found = self._transports.setdefault(origin, made)
            for old in list(self._transports)[1:-_MOST_ORIGINS]:
                await self._transports.pop(old).aclose()
            if found is not made:
                await made.aclose()
        return found


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
