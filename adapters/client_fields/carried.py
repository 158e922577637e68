"""Which fields outside our schema reach a backend."""

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Raw

from strowger_gateway.schemas.requests import ChatRequest, Request
from strowger_gateway.schemas.unknown_fields import Unknown


class Carries(Protocol):
    """Decides which fields outside our schema reach a backend."""

    def lost(self, request: Request, model: str, found: Sequence[Unknown]) -> tuple[str, ...]:
        """Return the paths of the fields that do not reach the backend, each once.

        found: all unknown fields of the request (schemas/unknown_fields.py).
        """
        ...


class Nothing:
    """A backend that gets only the fields of our schema; it rejects others at the top level."""

    def lost(self, request: Request, model: str, found: Sequence[Unknown]) -> tuple[str, ...]:
        """See Carries."""
        nested = [one.path for one in found if one.parent and not has_no_effect(one.value)]
        return tuple(dict.fromkeys(nested))


NOTHING: Final = Nothing()


class Rendered:
    """A backend for which a template renders conversations as text. inner: the backend's own."""

    def __init__(self, inner: Carries | None) -> None:
        self._inner = inner

    def lost(self, request: Request, model: str, found: Sequence[Unknown]) -> tuple[str, ...]:
        """See Carries."""
        if isinstance(request, ChatRequest):
            return NOTHING.lost(request, model, found)
        return () if self._inner is None else self._inner.lost(request, model, found)


def has_no_effect(value: object) -> bool:
    """Return whether it is null, an empty list or an empty object, all without effect."""
    if isinstance(value, Raw):
        return bytes(value) in (b"null", b"[]", b"{}")
    return value is None or (isinstance(value, list) and not value)
