"""Where entries are kept besides the memory of a process: what such a store does."""

from collections.abc import Mapping
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

    async def by_model(self) -> tuple[Mapping[str, int], bool]:
        """Return how many entries there are, and whether all could be counted in time."""
        ...

    async def clear_model(self, model: str) -> tuple[int, bool]:
        """Delete the entries of a model, "" for all; return how many, and whether those are all."""
        ...

    async def put(self, key: str, data: bytes, ttl_s: float) -> None: ...

    async def aclose(self) -> None: ...
