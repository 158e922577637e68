"""Fetch an image over https, within the allowed addresses, sizes and times."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable
from typing import Final
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import httpx
from msgspec import Struct

from strowger_gateway.gateway.backends.upstream.image_fetching.allowed_addresses import (
    AllowedAddresses,
    literal,
)
from strowger_gateway.gateway.backends.upstream.image_fetching.byte_meter import ByteMeter
from strowger_gateway.gateway.backends.upstream.image_fetching.image import Image
from strowger_gateway.gateway.config.schema.connection import Fetch
from strowger_gateway.gateway.platform.fair_slots import FairSlots
from strowger_gateway.gateway.platform.names.names import Names
from strowger_gateway.schemas.errors import InvalidConfig, InvalidRequest

REDIRECTS: Final = 5
SETTLE_S: Final = 0.25
"""Minimum seconds to reject a name: longer than most resolvers take for any name."""
MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)
"""First bytes of images, if the server sends no type; WebP is recognised by two places."""

_AS_WRITTEN: Final = "!#$%&'()*+,/:;=?@[]~"

Resolve = Callable[[str, int], Awaitable[Iterable[str]]]


class _Answer(Struct, frozen=True, kw_only=True):
    """location: target of a redirect, "" if the answer is not one."""

    location: str = ""
    media_type: str = ""
    data: bytes = b""


_NAMES: Final = Names(most_in_flight=128, most_kept=1024)
"""Clients choose these names: they use up no room of those that the operator chose."""


async def resolve(host: str, port: int) -> list[str]:
    """Return a host's addresses, in the system's order. Raises OSError."""
    return [str(address[0]) for _, address in await _NAMES.addresses(host, port)]


class ImageFetcher:
    """Safe for concurrent use. Connects only to the address that was checked."""

    def __init__(
        self, config: Fetch, resolve_host: Resolve = resolve, *, settle_s: float = SETTLE_S
    ) -> None:
        """settle_s: see SETTLE_S. Raises InvalidConfig for a ca_file that cannot be read."""
        try:
            context = ssl.create_default_context(cafile=config.ca_file)
        except (OSError, ssl.SSLError) as exc:
            problem = f"server.fetch.ca_file: {config.ca_file!r} cannot be used: {exc}."
            raise InvalidConfig((problem,)) from exc
        self.max_bytes = config.max_bytes
        self._timeout_s = config.timeout_s
        self.connections = config.connections
        self.lines = FairSlots(config.max_connections)
        self.memory = FairSlots(config.max_total_bytes)
        self._settle_s = settle_s
        self._allowed = AllowedAddresses(config.allow, config.deny)
        self._resolve = resolve_host
        # Connections are not kept: the pool's key would be the address, not the name. `lines`
        # bounds their number.
        self._client = httpx.AsyncClient(
            verify=context,
            trust_env=False,
            timeout=config.timeout_s,
            follow_redirects=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        )

    async def image(self, url: str, where: str, meter: ByteMeter) -> Image:
        """See Images.image."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._follow(url, where, meter)
        except TimeoutError as exc:
            why = f"could not be fetched within {self._timeout_s:g} s"
            raise _refused(where, why) from exc

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _follow(self, url: str, where: str, meter: ByteMeter) -> Image:
        for _ in range(REDIRECTS + 1):
            answer = await self._get(url, where, meter)
            if not answer.location:
                kind = answer.media_type
                if not kind.startswith("image/"):
                    kind = _begins_as(answer.data)
                if not kind:
                    sent = answer.media_type or "no content type"
                    raise _refused(where, f"is not an image: its server sends {sent}")
                return Image(media_type=kind, data=answer.data)
            url = urljoin(url, answer.location)
        raise _refused(where, f"has more than {REDIRECTS} redirects")

    async def _get(self, url: str, where: str, meter: ByteMeter) -> _Answer:
        parts = _checked(url, where)
        address = await self._address(parts, where)
        try:
            async with self._client.stream(
                "GET",
                _pinned(parts, address),
                headers={
                    "host": parts.netloc,
                    "accept": "image/*",
                    "accept-encoding": "identity",
                },
                extensions={"sni_hostname": parts.hostname},
            ) as response:
                if response.has_redirect_location:
                    return _Answer(location=response.headers["location"])
                if not response.is_success:
                    raise _refused(where, f"returned status {response.status_code}")
                data = await _read(response, where, meter)
                kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
                return _Answer(media_type=kind, data=data)
        except (httpx.HTTPError, ssl.SSLError) as exc:
            why = f"could not be fetched: {exc or type(exc).__name__}"
            raise _refused(where, why) from exc

    async def _address(self, parts: SplitResult, where: str) -> str:
        """Reject unknown and internal names with the same message after the same time.

        Otherwise clients could find out which internal names exist.
        """
        host = parts.hostname or ""
        number = literal(host)
        begun = asyncio.get_running_loop().time()
        try:
            found = [number] if number else list(await self._resolve(host, parts.port or 443))
        except (OSError, UnicodeError):  # UnicodeError: a label of over 63 characters
            found = []
        address = self._allowed.first(found)
        if address is None:
            if number is None:
                over = begun + self._settle_s - asyncio.get_running_loop().time()
                await asyncio.sleep(max(0.0, over))
            raise _refused(
                where,
                f"names {host}, which is unknown or not public; send the image as a data: URI",
            )
        return address


def _checked(url: str, where: str) -> SplitResult:
    """Return the parts of a URL, its host as servers and certificates have it: ASCII (IDNA), and
    without a dot at its end."""
    try:
        parts = urlsplit(url)
        known = parts.port is None or parts.port > 0
        host = parts.hostname or ""
        host = (host if host.isascii() else host.encode("idna").decode()).removesuffix(".")
    except ValueError as exc:
        raise _refused(where, f"is not a valid URL: {exc}") from exc
    if parts.scheme.lower() != "https":
        raise _refused(where, "must be https, or a data: URI, for this model")
    if not host or not known or parts.username is not None:
        raise _refused(where, "must name a host, without a user name or password")
    port = "" if parts.port is None else f":{parts.port}"
    return parts._replace(netloc=f"[{host}]{port}" if ":" in host else f"{host}{port}")


def _pinned(parts: SplitResult, address: str) -> httpx.URL:
    """Return the URL with the host replaced by its address; SNI still carries the name."""
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    raw = quote(path, safe=_AS_WRITTEN).encode("ascii")
    return httpx.URL(scheme="https", host=address, port=parts.port, raw_path=raw)


async def _read(response: httpx.Response, where: str, meter: ByteMeter) -> bytes:
    """Read the body. Compressed ones are rejected: a few bytes could expand past every limit."""
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise _refused(where, f"is compressed ({coding}), although the request asks for identity")
    length = response.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > meter.limit - meter.used:
        meter.add(meter.limit + 1, where)
    data = bytearray()
    async for chunk in response.aiter_raw():
        meter.add(len(chunk), where)
        data += chunk
    return bytes(data)


def _begins_as(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in MAGIC if data.startswith(magic)), "")


def _refused(where: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"{where} {why}", param=where, code="invalid_image_url")
