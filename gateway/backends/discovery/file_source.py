"""Addresses from a file in the format of Prometheus's file-based service discovery, as JSON.

A list of groups, each with `targets: [HOST:PORT, …]` and optional labels, which are not used.
https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config
"""

import asyncio
import stat
from pathlib import Path

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.backends.discovery.addresses import parse, refusal
from strowger_gateway.gateway.backends.discovery.source import HostPort, LookUp, LookUpFailed

LARGEST = 1024 * 1024
"""Bytes of the file."""


class _Group(Struct, frozen=True, kw_only=True):
    targets: tuple[str, ...]


_groups: msgspec.json.Decoder[tuple[_Group, ...]] = msgspec.json.Decoder(tuple[_Group, ...])


class FileSource:
    """See AddressSource. A file that cannot be read whole is a failure: no part of it is used."""

    lasting = True

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        """See AddressSource."""
        return f"file {self._path}"

    async def look_up(self) -> LookUp:
        """See AddressSource."""
        content = await asyncio.to_thread(_read, self._path)
        try:
            groups = _groups.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise LookUpFailed(f"it is not a list of targets: {exc}") from exc
        found: dict[HostPort, None] = {}
        refused: list[str] = []
        for place, group in enumerate(groups):
            for spot, text in enumerate(group.targets):
                try:
                    endpoint = parse(text)
                except ValueError as exc:
                    raise LookUpFailed(f"[{place}].targets[{spot}] {exc}") from exc
                if (why := refusal(endpoint.host)) is not None:
                    refused.append(f"{endpoint.text} {why}")
                else:
                    found[endpoint] = None
        return LookUp(endpoints=tuple(found), refused=tuple(refused))


def _read(path: Path) -> bytes:
    """Return the content; never blocks on a pipe. Raises LookUpFailed."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise LookUpFailed("it is not a regular file")
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as exc:
        raise LookUpFailed(f"it cannot be read: {exc.strerror or exc}") from exc
    if len(content) > LARGEST:
        raise LookUpFailed(f"it is over {LARGEST} bytes")
    return content
