"""What breakers of one backend exchange between processes, and how to merge two of it."""

from msgspec import Struct


class BreakerSnapshot(Struct, frozen=True, kw_only=True):
    """The state that breakers of one backend exchange. Times are seconds of the one clock.

    at: when the circuit last opened or closed; of two snapshots, the later one is right.
    open_until, cooldown_s: of the open circuit; `open_until` is `None` while it is closed.
    retry_after_until: the end of the cooldown that the backend asked for.
    rate_limited_until: the part of `retry_after_until` that a 429 set, and not a 503.
    seen_by: the number of gateways whose failures opened the circuit; 0 while it is closed.
    refused_at, refused_until: when the backend last refused the account, or last answered after
    that, and how long it gets no requests; only the processes of one gateway exchange them.
    failed_in_row, run_at, run_since: its FailureRun, exchanged as refusals are.
    slow_at, slow_until: since when, and until when it counts as slow, exchanged in the same way.
    The last ten fields are absent from snapshots of gateways that do not know them.
    """

    at: float
    open_until: float | None
    cooldown_s: float
    retry_after_until: float
    last_failure: float
    deprioritised_until: float = float("-inf")
    rate_limited_until: float = float("-inf")
    seen_by: int = 0
    refused_at: float = float("-inf")
    refused_until: float = float("-inf")
    failed_in_row: int | None = None
    run_at: float = float("-inf")
    run_since: float = float("-inf")
    slow_at: float = float("-inf")
    slow_until: float = float("-inf")


def later(one: BreakerSnapshot, other: BreakerSnapshot) -> BreakerSnapshot:
    """Merge two snapshots of one breaker: the later state, the later of each time."""
    last = one if one.at > other.at else other
    refusing = one if one.refused_at > other.refused_at else other
    run = one if one.run_at > other.run_at else other
    slow = one if one.slow_at > other.slow_at else other
    stays_open = one.open_until is not None and other.open_until is not None
    return BreakerSnapshot(
        at=last.at,
        open_until=last.open_until,
        cooldown_s=last.cooldown_s,
        retry_after_until=max(one.retry_after_until, other.retry_after_until),
        last_failure=max(one.last_failure, other.last_failure),
        deprioritised_until=max(one.deprioritised_until, other.deprioritised_until),
        rate_limited_until=max(one.rate_limited_until, other.rate_limited_until),
        seen_by=max(one.seen_by, other.seen_by) if stays_open else last.seen_by,
        refused_at=refusing.refused_at,
        refused_until=refusing.refused_until,
        failed_in_row=run.failed_in_row,
        run_at=run.run_at,
        run_since=run.run_since,
        slow_at=slow.slow_at,
        slow_until=slow.slow_until,
    )
