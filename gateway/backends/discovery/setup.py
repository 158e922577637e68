"""Create the watch of a `discover` section."""

from pathlib import Path

from strowger_gateway.gateway.backends.discovery.file_source import FileSource
from strowger_gateway.gateway.backends.discovery.source import AddressSource
from strowger_gateway.gateway.backends.discovery.watch import Watch
from strowger_gateway.gateway.config.dns_server import server_of
from strowger_gateway.gateway.config.schema.discovery import Discover
from strowger_gateway.schemas.errors import InvalidConfig

FILE_S = 1.0
"""Seconds between two readings of a file."""


def watch_of(discover: Discover) -> Watch:
    """Return the watch, not started. Raises InvalidConfig without the package that it needs."""
    source = source_of(discover)
    every_s = discover.every_s if discover.file is None else min(FILE_S, discover.every_s)
    return Watch(source, every_s=every_s, keep_s=discover.keep_s)


def source_of(discover: Discover) -> AddressSource:
    """Return the source. Raises InvalidConfig without the package that it needs."""
    if discover.file is not None:
        return FileSource(Path(discover.file))
    try:
        # Late: dnspython, for those who use the DNS.
        from strowger_gateway.gateway.backends.discovery.dns_source import DnsSource
    except ModuleNotFoundError as exc:
        raise InvalidConfig(
            (
                "discover.dns: the DNS needs dnspython; "
                "pip install 'strowger-gateway[dns]', or use discover.file",
            )
        ) from exc
    server = None if discover.server is None else server_of(discover.server)
    return DnsSource(discover.dns or "", discover.port, server)
