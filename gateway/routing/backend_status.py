"""How one backend is at this moment, for people who look: breaker, rest, load, latencies."""

from math import ceil, isinf

from msgspec import Struct

from gateway.routing.planning.route import Backend
from gateway.routing.resilience.circuit_breaker import Breaker, State


class Health(Struct, frozen=True, kw_only=True):
    """As one process of the gateway sees it. Times in seconds.

    available:       a request may be sent to it now.
    breaker:         closed, or open after too many failures, or half_open: due for one probe.
    resting:         it asked for a pause.
    spared_s:        others are asked before it for so long, for it had too much to do.
    available_in_s:  until `available` can turn true by itself.
    in_flight:       attempts of this process under way. elsewhere: of others, as last heard.
    first_content_s: of streams, a moving average as of the last one; whole_answer_s: of answers in
             one piece.
    failed_s_ago:    since its last failure; `None` without one.
    """

    available: bool
    breaker: State
    resting: bool
    spared_s: float
    probing: bool
    available_in_s: float
    in_flight: int
    elsewhere: int
    first_content_s: float | None
    whole_answer_s: float | None
    failed_s_ago: float | None


def health_of(backend: Backend, now: float, of: Breaker | None = None) -> Health:
    """now: the clock's seconds. of: a name's, where the backend's model is a wildcard."""
    breaker, load = of or backend.breaker, backend.load
    return Health(
        available=breaker.allows(now),
        breaker=breaker.state(now),
        resting=breaker.resting(now),
        spared_s=breaker.spared_for(now),
        probing=breaker.probing,
        available_in_s=breaker.available_in(now),
        in_flight=load.in_flight,
        elsewhere=load.elsewhere,
        first_content_s=load.first.measured,
        whole_answer_s=load.whole.measured,
        failed_s_ago=None if isinf(breaker.last_failure) else now - breaker.last_failure,
    )


def in_words(health: Health) -> str:
    """`closed`, `breaker open for another 12 s`, `resting for another 3 s, as it asked for`."""
    wait = f"for another {_seconds(health.available_in_s)} s"
    if health.resting:
        return f"resting {wait}, as it asked for"
    if health.breaker == "open":
        return f"breaker open {wait}"
    if health.breaker == "half_open":
        return f"breaker half open, {'being probed' if health.probing else 'due for a probe'}"
    if health.spared_s:
        return f"asked last for another {_seconds(health.spared_s)} s, for it had too much to do"
    return "closed"


def _seconds(left: float) -> int:
    """Whole ones, rounded up, but not for what adding times up has left behind the point."""
    return ceil(left - 1e-6)
