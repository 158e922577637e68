"""Requests of the command line to a running gateway with our HTTP client, and their options."""

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar
from urllib.parse import urlsplit

import click
import msgspec

from adapters.base import Outbound
from gateway.cli.config_loading import Faults
from gateway.config.schema.config import Config
from gateway.upstream.wire import WireTransport
from schemas.errors import InvalidConfig, UpstreamError, UpstreamTimeout, UpstreamUnreachable

CONNECT_S, RESPONSE_S = 5.0, 30.0
LARGEST_BODY = 64 * 1024 * 1024
Headers = Sequence[tuple[str, str]]
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


class _ErrorDetail(msgspec.Struct):
    message: str


class _Envelope(msgspec.Struct):
    error: _ErrorDetail


def url_option(words: str) -> Callable[[F], F]:
    """`--url URL`; words: its help text."""
    return click.option("--url", default=None, envvar="STROWGER_URL", show_envvar=True, help=words)


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
    """A gateway by its URL. path: prefix of every target, if it is served under one."""

    def __init__(self, url: str) -> None:
        """Raises click.UsageError for an invalid URL."""
        self.url = url.rstrip("/")
        self.path = urlsplit(self.url).path
        try:
            self.transport = WireTransport(self.url, name="gateway")
        except InvalidConfig as exc:
            problem = exc.problems[0].removeprefix("gateway: ").replace("base_url", "the URL")
            raise click.UsageError(f"--url: {problem}") from exc

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
    url: str, target: str, kind: type[T], *, key: str, body: bytes = b"", headers: Headers = ()
) -> T:
    """Return a response with status 200, decoded. Raises Faults for every other outcome."""
    data = asyncio.run(_fetch(url, target, key, body, headers))
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as exc:
        raise Faults(
            (f"the server at {url} is not a Strowger gateway of this version: {exc}",)
        ) from exc


def url_of(config: Config) -> str:
    """The URL at which clients on this machine reach a gateway with this configuration."""
    host = config.server.host
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"
    return f"http://{f'[{host}]' if ':' in host else host}:{config.server.port}"


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
        raise Faults(
            (f"cannot connect to {url}; start the gateway with `strowger serve`, or give --url",)
        ) from exc
    except UpstreamTimeout as exc:
        raise Faults((f"{url} did not answer in time",)) from exc
    except UpstreamError as exc:
        raise Faults((f"{url}: {exc.message}",)) from exc


async def _fetch(url: str, target: str, key: str, body: bytes, headers: Headers) -> bytes:
    site = Site(url)
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


def _key_option(place: str) -> str:
    operator = place.startswith("/admin")
    return "--admin-key or STROWGER_ADMIN_KEY" if operator else "--key or STROWGER_API_KEY"
