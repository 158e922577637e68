"""The list of issued keys, as far as gateways exchange it: its version."""

from typing import Protocol


class KeyVersions(Protocol):
    """The list of issued keys: gateways announce its version, and read it from the store."""

    @property
    def version(self) -> int: ...

    def noticed(self, version: int) -> None:
        """Another gateway has this version."""
        ...


class NoKeys:
    """No issued keys."""

    version = -1

    def noticed(self, version: int) -> None: ...
