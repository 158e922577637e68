"""The address of a running gateway for the commands, and how its certificate is verified."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from urllib.parse import urlsplit

import click
from msgspec import Struct

from strowger_gateway.gateway.backends.upstream.tls import PinnedContexts, TlsContexts
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.connection import Tls

P = ParamSpec("P")
R = TypeVar("R")


class Address(Struct, frozen=True, kw_only=True):
    """url: without a slash at its end. pinned: the file with the certificate that it must have,
    whatever its name; `None`: one for its name, from an authority in tls.ca_file or the system's.
    """

    url: str
    tls: Tls = Tls()
    pinned: str | None = None

    def __str__(self) -> str:
        return self.url

    @property
    def contexts(self) -> TlsContexts:
        return TlsContexts() if self.pinned is None else PinnedContexts(self.pinned)


def url_option(
    words: str,
) -> Callable[[Callable[Concatenate[Address | None, Tls, P], R]], Callable[P, R]]:
    """`--url URL` and the options of its certificates, as the parameters `address` and `tls`.

    words: the help text of --url.
    """

    def options(command: Callable[Concatenate[Address | None, Tls, P], R]) -> Callable[P, R]:
        @wraps(command)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            url, ca_file, client_cert, client_key = (
                kwargs.pop(name) for name in ("url", "ca_file", "client_cert", "client_key")
            )
            tls = Tls(
                ca_file=_text(ca_file), client_cert=_text(client_cert), client_key=_text(client_key)
            )
            address = None if url is None else Address(url=_checked(str(url)), tls=tls)
            return command(address, tls, *args, **kwargs)

        for name, variable, text in reversed(_OPTIONS):
            called = click.option(
                name, default=None, envvar=variable, show_envvar=True, help=text or words
            )(called)
        return called

    return options


_OPTIONS = (
    ("--url", "STROWGER_URL", ""),
    (
        "--ca-file",
        "STROWGER_CA_FILE",
        "PEM file of the authorities that the gateway's certificate may come from.",
    ),
    (
        "--client-cert",
        "STROWGER_CLIENT_CERT",
        "PEM file of the certificate that a gateway with client_ca requires.",
    ),
    ("--client-key", "STROWGER_CLIENT_KEY", "Its private key, if that is in another file."),
)


def address_of(config: Config, tls: Tls) -> Address:
    """Return where clients on this machine reach a gateway with this configuration.

    Its certificate is for a name that is rarely this machine's loopback address, so it has to be
    the certificate in server.tls.cert itself, unless tls names authorities.
    """
    host, own = config.server.host, config.server.tls
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"
    scheme = "http" if own is None else "https"
    return Address(
        url=f"{scheme}://{f'[{host}]' if ':' in host else host}:{config.server.port}",
        tls=tls,
        pinned=own.cert if own is not None and tls.ca_file is None else None,
    )


def _checked(url: str) -> str:
    """Return a URL without a slash at its end. Raises click.UsageError if it is none."""
    try:
        urlsplit(url)
    except ValueError as exc:
        raise click.UsageError(f"--url: {exc}") from exc
    if not url.isascii():
        raise click.UsageError("--url: must be ASCII; write other characters as %XX")
    return url.rstrip("/")


def _text(value: object) -> str | None:
    return None if value is None else str(value)
