"""The file of addresses that gateways follow (Prometheus's file_sd, as JSON)."""

import os
from collections.abc import Collection
from pathlib import Path

import msgspec

from strowger_gateway.gateway.backends.discovery.file_source import FileSource
from strowger_gateway.gateway.backends.discovery.source import LookUpFailed


class AddressFile:
    """Replaced as a whole, so that no gateway reads a part. addresses: those in it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.addresses: frozenset[str] = frozenset()

    async def read(self) -> None:
        """Take over what an earlier process has written; a file that cannot be read is replaced."""
        try:
            found = await FileSource(self._path).look_up()
        except LookUpFailed:
            return
        self.addresses = frozenset(one.text for one in found.endpoints)

    def write(self, addresses: Collection[str]) -> bool:
        """Return whether that changed the file. Raises OSError."""
        if self.addresses == frozenset(addresses) and self._path.exists():
            return False
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            with draft.open("wb") as file:
                file.write(msgspec.json.encode([{"targets": sorted(addresses)}]) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
        finally:
            draft.unlink(missing_ok=True)
        self.addresses = frozenset(addresses)
        return True
