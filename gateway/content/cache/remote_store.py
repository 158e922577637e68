"""Where entries are kept besides the memory of a process: what such a store does."""

from typing import Protocol


class CacheUnavailable(Exception):
    """Entries can be neither read nor written now."""


class RemoteStore(Protocol):
    """Entries by key, elsewhere. Methods raise CacheUnavailable if the store cannot be used.

    failed: how often it could not be used.
    """

    @property
    def failed(self) -> int: ...

    async def get(self, key: str) -> bytes | None: ...

    async def put(self, key: str, data: bytes, ttl_s: float) -> None: ...

    async def aclose(self) -> None: ...
