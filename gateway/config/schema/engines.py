"""The shape of `providers[].engines`: engines on other machines."""

from typing import Annotated

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.discovery import Discover
from strowger_gateway.gateway.config.schema.units import Name, Path

HostPort = Annotated[
    str, Meta(min_length=3, max_length=120, pattern=r"^\S+:[0-9]{1,5}$", description="HOST:PORT")
]
"""HOST:PORT, with an IPv6 address in brackets."""


class EngineTls(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PEM files of mutual TLS with engines, which are read again when they change.

    cert, key:   this gateway's certificate, for TLS clients, and its key.
    ca:          the authorities of the engines' certificates.
    server_name: the name that they must have; `None`: the host of the address.
    """

    cert: Path
    key: Path
    ca: Path
    server_name: Name | None = None


class Engines(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Engines started elsewhere with `strowger engine`; each is a replica of the provider.

    hosts: where they listen. discover: where to find them; as well as, or in place of, hosts.
    tls: `None` only for loopback addresses.
    """

    hosts: tuple[HostPort, ...] = ()
    discover: Discover | None = None
    tls: EngineTls | None = None
