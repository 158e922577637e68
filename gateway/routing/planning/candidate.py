"""A backend that may answer one request or get a copy of it, with the request as it gets it."""

from collections.abc import Mapping

from msgspec import Struct

from strowger_gateway.adapters.repairs.rule import Loss, Repair, Undo
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.schemas.requests import Request


class Candidate(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """One backend that may answer.

    name:    the backend's, with the requested model in place of a wildcard.
    breaker: the backend's, or the requested model's if the backend is a wildcard.
    request: as this backend gets it; `None` if that is the client's request.
    dropped: fields that it cannot honour. omitted: what it does not get although no other backend
             is preferred because of that: hints, nested fields, reasoning content.
    defaulted: what the vendor requires and the client did not send, and what replaces a value that
             the model cannot give: `max_tokens=8192`.
    repaired: what had to be changed for the backend to accept it, as `PATH:RULE`. loss: what the
             answer may lack because of that. undo: maps names in the answer back to the client's.
    pending: rules that are yet to run, because the match is shared by many requests.
    changes: fields that are yet to be set in the request, because the values of many requests are
             equal (plan_cache.py).
    longest_prompt: a prompt of more tokens exceeds the model's context; `None` if unknown.
    reasons: the model is known to reason.
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
    repaired: tuple[str, ...] = ()
    loss: Loss = "none"
    undo: Undo | None = None
    pending: tuple[Repair, ...] = ()
    changes: Mapping[str, object] | None = None
    longest_prompt: int | None = None
    reasons: bool = False

    @property
    def complete(self) -> bool:
        """Whether the backend honours everything in the request that decides about an answer."""
        return not self.dropped and self.loss != "constraint"

    @property
    def reported_omissions(self) -> tuple[str, ...]:
        """The fields that the response reports as not sent to this backend."""
        return self.dropped + self.omitted


def place_of(candidate: Candidate) -> str:
    """The candidate's name, with the address of its replica."""
    backend = candidate.backend
    return candidate.name if backend.replica is None else backend.place


class UnmirrorableRequest(Struct, frozen=True, kw_only=True):
    """A request drawn for a copy that the mirror's backend cannot honour.

    name, pattern: the backend's, as in an AttemptRecord. code, reason: of its refusal.
    """

    name: str
    pattern: str
    code: str
    reason: str
