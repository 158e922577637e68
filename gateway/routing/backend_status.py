"""The state of one backend for operators: breaker, cooldown, load and latencies."""

from math import ceil, isinf

from msgspec import Struct

from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.gateway.routing.resilience.backend_hold import BackendHold
from strowger_gateway.gateway.routing.resilience.breaker_state import Phase, State
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker


class BackendStatus(Struct, frozen=True, kw_only=True):
    """One backend as seen by one process. Times in seconds.

    up:              it works, as far as is known, and takes requests: strowger_backend_available.
    tried:           an attempt there has ended since the gateway started.
    phase:           up; or down until something succeeds: failing in a row, its circuit open, or
                     the operator's account, key or model refused.
    down_for_s:      without a success; `None` if the phase is up.
    available:       a request may be sent to it now.
    breaker:         closed, or open after too many failures, or half_open: due for one probe.
    honouring_retry_after: cooling down, as its `retry-after` says.
    refused_for_s:   no requests, because its vendor refused the operator's account, key or model.
    deprioritised_for_s: other backends are tried first, because it was overloaded.
    slow:            the model's other backends are tried first, because it has become slow.
    available_in_s:  until `available` can turn true by itself; 0 while an operator holds it.
    in_flight:       attempts of this process.
    in_flight_other_processes: as last received from them.
    time_to_first_token_s: of streams, a moving average as of the last one.
    latency_s:       of answers in one piece, a moving average as of the last one.
    failed_s_ago:    since its last failure; `None` without one.
    failures_seen_by: the number of gateways whose failures opened the circuit; 0 while it is
                     closed.
    held:            an operator drains or disables it: state, reason, who and until when.
    """

    up: bool
    tried: bool
    phase: Phase
    down_for_s: float | None
    available: bool
    breaker: State
    honouring_retry_after: bool
    refused_for_s: float
    deprioritised_for_s: float
    slow: bool
    probing: bool
    available_in_s: float
    in_flight: int
    in_flight_other_processes: int
    time_to_first_token_s: float | None
    latency_s: float | None
    failed_s_ago: float | None
    failures_seen_by: int
    held: BackendHold | None = None


def status_of(backend: Backend, now: float, of: Breaker | None = None) -> BackendStatus:
    """The status at `now`, in the clock's seconds.

    of: the breaker of one model name, if the backend's model is a wildcard.
    """
    breaker, load = of or backend.breaker, backend.load
    phase = breaker.phase(now)
    return BackendStatus(
        up=breaker.is_up(now),
        tried=breaker.is_tried,
        phase=phase,
        down_for_s=None if phase == "up" or isinf(breaker.down_since) else now - breaker.down_since,
        available=breaker.is_available(now),
        breaker=breaker.state(now),
        honouring_retry_after=breaker.cooling_down(now),
        refused_for_s=breaker.refused_for(now),
        deprioritised_for_s=breaker.deprioritised_for(now),
        slow=breaker.pace.is_marked(now),
        probing=breaker.probing,
        available_in_s=0.0 if breaker.hold else breaker.available_in(now),
        in_flight=load.in_flight,
        in_flight_other_processes=load.other_processes,
        time_to_first_token_s=load.first_content.measured,
        latency_s=load.answer.measured,
        failed_s_ago=None if isinf(breaker.last_failure) else now - breaker.last_failure,
        failures_seen_by=breaker.seen_by,
        held=breaker.hold,
    )


def describe(health: BackendStatus) -> str:
    """`healthy`, `not tried yet`, `circuit open, probe in 12 s`, `rate-limited, retry in 3 s`.

    A circuit that several gateways have opened: `circuit open on failures of 3 gateways, probe …`.
    A hold of an operator comes first: `draining since 2026-11-30T20:41:00Z: new account`.
    """
    if health.held is not None:
        return health.held.words
    wait = f"{_seconds(health.available_in_s)} s"
    if health.refused_for_s:
        return f"its vendor refuses the account or the model, next try in {wait}"
    if health.honouring_retry_after:
        return f"rate-limited, retry in {wait}"
    if health.breaker == "open":
        return f"circuit open{seen_by(health)}, probe in {wait}"
    if health.breaker == "half_open":
        probe = "probe in flight" if health.probing else "probe due"
        return f"circuit half-open{seen_by(health)}, {probe}"
    if health.deprioritised_for_s:
        return f"deprioritised for {_seconds(health.deprioritised_for_s)} s: it was overloaded"
    if health.phase == "refused":
        return "its vendor refused the account or the model, next try due"
    if health.phase == "failing":
        return f"failing: no success for {_seconds(health.down_for_s or 0.0)} s"
    if health.slow:
        return "slow: the model's other backends are tried first"
    return "healthy" if health.tried else "not tried yet"


def seen_by(health: BackendStatus) -> str:
    """Return ` on failures of 3 gateways`; nothing if this gateway's own opened the circuit."""
    many = health.failures_seen_by
    return f" on failures of {many} gateways" if many > 1 else ""


def _seconds(left: float) -> int:
    """Round up to whole seconds, ignoring floating-point residue."""
    return ceil(left - 1e-6)
