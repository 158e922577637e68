"""A plan: the backends that may answer one request, in order, and the bounds for asking them."""

import time
from collections.abc import Callable, Sequence
from math import ceil, inf

from msgspec import Struct

from strowger_gateway.gateway.config.schema.failover import RetryRule
from strowger_gateway.gateway.routing.planning.candidate import Candidate, UnmirrorableRequest
from strowger_gateway.gateway.routing.planning.model_limits import PlanLimits
from strowger_gateway.gateway.routing.planning.route import Hedging
from strowger_gateway.schemas.errors import RateLimited, Unavailable


def no_error_fallback(code: str) -> "tuple[Candidate, ...]":
    """The `error_fallback` of a route without `fallback_by_error`."""
    return ()


class Plan(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """The backends that may answer, first choice first. Times in seconds.

    A plan holds nothing of the request, so that requests of the same shape share one.

    candidates: the available backends. If it is empty, `unavailable` is not.
    unavailable: able backends with an open circuit or in a cooldown; the last resort.
    names:     of the candidates, or of the unavailable ones if there are no candidates.
    deadline_s: for the whole request: the operator's, or the client's if that is shorter.
    stream_deadline_s: the same if the client streams.
    operator_deadline_s: the operator's alone.
    ruled_out: backends that may not answer, each with the reason, for logs and `strowger explain`.
    rule:      the index of the `when` rule that matched, from 0; `None` if none did.
    error_fallback: maps an error code to the backends that replace the remaining candidates.
    mirror:    the backend that gets a copy, or the reason why it cannot get one.
    continues: a stream that breaks off after content is continued by another backend.
    restarts:  a stream is held until it is complete, so that another backend can start again.
    limits:    the smallest ones of the candidates' models; `None` if none is known.
    """

    route: str
    candidates: tuple[Candidate, ...]
    names: tuple[str, ...]
    retry: RetryRule
    deadline_s: float
    stream_deadline_s: float
    operator_deadline_s: float
    unavailable: tuple[Candidate, ...] = ()
    ruled_out: tuple[tuple[str, str], ...] = ()
    rule: int | None = None
    error_fallback: Callable[[str], tuple[Candidate, ...]] = no_error_fallback
    hedging: Hedging | None = None
    mirror: Candidate | UnmirrorableRequest | None = None
    limits: PlanLimits | None = None
    continues: bool = False
    restarts: bool = False

    def ends(self, started: float, *, stream: bool) -> float:
        """The clock's seconds at which a request of this plan is over."""
        return started + (self.stream_deadline_s if stream else self.deadline_s)


def why_unavailable(candidate: Candidate, now: float) -> str:
    """The reason why a candidate is not asked in its turn.

    A hold of an operator, a refusal, its cooldown, its circuit.
    """
    breaker = candidate.breaker
    if breaker.hold is not None:
        return breaker.hold.words
    if seconds := breaker.refused_for(now):
        return f"its vendor refuses the account or the model, next try in {ceil(seconds)} s"
    if breaker.cooling_down(now):
        return f"rate-limited, available in {ceil(breaker.cooldown_left(now))} s"
    return f"breaker {breaker.state(now)}"


def no_backend_available(unavailable: Sequence[Candidate], now: float) -> Unavailable:
    """The error when no backend can be asked in time. Its retry_after is at least one second.

    It is a RateLimited (429) if a rate limit is the only problem of each of them. Without one that
    can become available by itself, `retry_after` is `None`: an operator has to end a hold. If spend
    caps are used up, it is the time until the first of them begins again.
    """
    names = ", ".join(f"{one.name}: {why_unavailable(one, now)}" for one in unavailable)
    others = [one for one in unavailable if one.breaker.hold is None]
    if not others:
        ends = [hold.until for one in unavailable if (hold := one.breaker.hold) and hold.own]
        if ends:
            wait = min(ends, key=lambda end: inf if end is None else end)
            return Unavailable(
                f"no backend is available ({names})",
                retry_after=None if wait is None else max(wait - time.time(), 1.0),
            )
        return Unavailable(
            f"no backend is available ({names}); an operator has taken them out of service, and "
            "puts them back with `strowger backends enable`"
        )
    wait = min(one.breaker.available_in(now) for one in others)
    limited = all(one.breaker.only_rate_limited(now) for one in others)
    kind = RateLimited if limited else Unavailable
    return kind(f"no backend is available ({names})", retry_after=max(wait, 1.0))
