"""Requests of the command line to a running gateway with our HTTP client, and their options."""

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar
from urllib.parse import urlsplit

import click
import msgspec

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.gateway.backends.upstream.wire import WireTransport
from strowger_gateway.gateway.backends.upstream.wire.faults import CLOSED_EARLY
from strowger_gateway.gateway.cli.address import Address
from strowger_gateway.gateway.cli.config_loading import Faults
from strowger_gateway.schemas.errors import (
    GatewayError,
    InvalidConfig,
    UpstreamBroken,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnreachable,
)

CONNECT_S, RESPONSE_S = 5.0, 30.0
LARGEST_BODY = 64 * 1024 * 1024
# With TLS 1.3 a client learns only after its handshake that its certificate is missing.
CLIENT_CERT_HINT = "; if it requires client certificates, give --client-cert"
Headers = Sequence[tuple[str, str]]
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


class _ErrorDetail(msgspec.Struct):
    message: str


class _Envelope(msgspec.Struct):
    error: _ErrorDetail


def admin_key_option(command: F) -> F:
    """`--admin-key KEY`."""
    return click.option(
        "--admin-key",
        default="",
        envvar="STROWGER_ADMIN_KEY",
        show_envvar=True,
        help="The running gateway's auth.admin_key.",
    )(command)


class Site:
    """A gateway by its address. path: prefix of every target, if it is served under one."""

    def __init__(self, address: Address) -> None:
        """Raises click.UsageError for an invalid URL, or files that cannot be used."""
        self.url = address.url
        self.path = urlsplit(self.url).path
        try:
            self.transport = WireTransport(
                self.url, name="gateway", tls=address.tls, contexts=address.contexts
            )
        except InvalidConfig as exc:
            raise click.UsageError(_problem(exc.problems[0].removeprefix("gateway: "))) from exc

    def outbound(
        self,
        target: str,
        *,
        key: str = "",
        body: bytes = b"",
        headers: Headers = (),
        stream: bool = False,
    ) -> Outbound:
        """Build a GET without a body, else a POST."""
        own: tuple[tuple[str, str], ...] = (("accept", "*/*"),)
        own += (("authorization", f"Bearer {key}"),) if key else ()
        own += (("content-type", "application/json"),) if body else ()
        given = tuple((name.lower(), value) for name, value in headers)
        taken = {name for name, _ in given}
        return Outbound(
            target=self.path + target,
            headers=(*(one for one in own if one[0] not in taken), *given),
            body=body,
            method="POST" if body else "GET",
            stream=stream,
        )


def fetch(
    address: Address,
    target: str,
    kind: type[T],
    *,
    key: str,
    body: bytes = b"",
    headers: Headers = (),
) -> T:
    """Return a response with status 200, decoded. Raises Faults for every other outcome."""
    data = asyncio.run(_fetch(address, target, key, body, headers))
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as exc:
        raise Faults(
            (f"the server at {address} is not a Strowger gateway of this version: {exc}",)
        ) from exc


def error_text(status: int, body: bytes) -> str:
    """Describe an error response."""
    try:
        return f"{status}: {msgspec.json.decode(body, type=_Envelope).error.message}"
    except msgspec.DecodeError:
        return f"status {status} without a readable error message"


@contextmanager
def upstream_faults(url: str) -> Generator[None, None, None]:
    """Turn connection errors into Faults."""
    try:
        yield
    except UpstreamUnreachable as exc:
        if url.startswith("https:") and CLOSED_EARLY in exc.message:
            raise Faults((f"{url}: {exc.message}{CLIENT_CERT_HINT}",)) from exc
        if "certificate" in exc.logged:
            why = exc.logged.removeprefix("gateway: ")
            raise Faults((f"{url}: {why}; give --ca-file, or --client-cert",)) from exc
        raise Faults(
            (f"cannot connect to {url}; start the gateway with `strowger serve`, or give --url",)
        ) from exc
    except UpstreamTimeout as exc:
        raise Faults((f"{url} did not answer in time",)) from exc
    except UpstreamBroken as exc:
        hint = CLIENT_CERT_HINT if url.startswith("https:") else ""
        raise Faults((f"{url}: {exc.message}{hint}",)) from exc
    except UpstreamError as exc:
        raise Faults((f"{url}: {exc.message}",)) from exc
    except GatewayError as exc:  # what a header cannot carry, such as a key with a line break
        raise Faults((exc.message,)) from exc


async def _fetch(address: Address, target: str, key: str, body: bytes, headers: Headers) -> bytes:
    site = Site(address)
    now = asyncio.get_running_loop().time()
    outbound = site.outbound(target, key=key, body=body, headers=headers)
    try:
        with upstream_faults(site.url):
            reply = await site.transport.exchange(
                outbound, connect_by=now + CONNECT_S, head_by=now + RESPONSE_S
            )
            try:
                data = await reply.body(now + RESPONSE_S, LARGEST_BODY)
            finally:
                await reply.aclose()
    finally:
        await site.transport.aclose()
    if reply.status != 200:
        place = target.partition("?")[0]
        remedy = f"; give {_key_option(place)}" if reply.status == 401 else ""
        raise Faults((f"{site.url}{place}: {error_text(reply.status, data)}{remedy}",))
    return data


def _problem(text: str) -> str:
    """Name the option in a message about a provider's setting."""
    for setting in ("ca_file", "client_cert", "client_key"):
        name = f"tls.{setting}"
        if text.startswith(name):
            return text.replace(name, "--" + setting.replace("_", "-"))
    return f"--url: {text.replace('base_url', 'the URL')}"


def _key_option(place: str) -> str:
    operator = place.startswith("/admin")
    return "--admin-key or STROWGER_ADMIN_KEY" if operator else "--key or STROWGER_API_KEY"
