"""What reaches a backend of the fields that our schema does not have."""

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Raw

from schemas.requests import ChatRequest, Request
from schemas.unknown_fields import Unknown


class Carries(Protocol):
    """What reaches a backend of the fields that our schema does not have."""

    def lost(self, request: Request, model: str, found: Sequence[Unknown]) -> tuple[str, ...]:
        """The paths of those that do not, each once.

        found: all of the request's (schemas.unknown_fields).
        """
        ...


class Nothing:
    """Of a backend that gets what our schema has alone; it refuses others at the top level."""

    def lost(self, request: Request, model: str, found: Sequence[Unknown]) -> tuple[str, ...]:
        """See Carries."""
        nested = [one.path for one in found if one.parent and not asks_nothing(one.value)]
        return tuple(dict.fromkeys(nested))


NOTHING: Final = Nothing()


class Rendered:
    """Of a backend for whom a template makes text of conversations. inner: its own."""

    def __init__(self, inner: Carries | None) -> None:
        self._inner = inner

    def lost(self, request: Request, model: str, found: Sequence[Unknown]) -> tuple[str, ...]:
        """See Carries."""
        if isinstance(request, ChatRequest):
            return NOTHING.lost(request, model, found)
        return () if self._inner is None else self._inner.lost(request, model, found)


def asks_nothing(value: object) -> bool:
    """Null, an empty list or an empty object: a backend that does not get it answers the same."""
    if isinstance(value, Raw):
        return bytes(value) in (b"null", b"[]", b"{}")
    return value is None or (isinstance(value, list) and not value)
