"""A backend that may answer one request or a copy of it, and what that request is to it."""

from msgspec import Struct

from gateway.routing.planning.route import Backend
from gateway.routing.resilience.circuit_breaker import Breaker
from schemas.requests import Request


class Candidate(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """One of those that may answer.

    name:    the backend's with the model that is asked for, where its own is a wildcard.
    breaker: the backend's, or that of the model that is asked for, where its own is a wildcard.
    request: what it would get, where that is not what the client asked.
    dropped: fields that it cannot honour. left_out: what it does not get to see though nobody
             else is preferred for it: hints, fields inside of others, thoughts.
    defaulted: what the vendor requires and the client left out: `max_tokens=8192`.
    """

    backend: Backend
    breaker: Breaker
    name: str
    model: str
    weight: float
    request: Request | None = None
    dropped: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()
    defaulted: tuple[str, ...] = ()

    @property
    def reported_omissions(self) -> tuple[str, ...]:
        """What the client is told that this backend did not get."""
        return self.dropped + self.omitted


class UnmirrorableRequest(Struct, frozen=True, kw_only=True):
    """A copy that was drawn, and that the mirror's backend has no words for.

    name, pattern: the backend's, as of an attempt. code, reason: of its refusal.
    """

    name: str
    pattern: str
    code: str
    reason: str
