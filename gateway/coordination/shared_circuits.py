"""What one gateway knows of circuits: those of its own processes, and what it adopts of others.

Another gateway's word never opens a circuit here, because its network may be what is broken. A
circuit opens on failures here, on those of several gateways (`shared_evidence`), or because two
gateways say that several have seen failures: so a gateway that has just come knows what all know.
A circuit that is open here stays open or closes by whichever gateway has probed. Pauses that a
backend has asked for are adopted as they are.
"""

from collections.abc import Iterable

from msgspec import structs

from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.routing.resilience.breaker_per_model import bound
from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot, later
from strowger_gateway.gateway.routing.resilience.pauses import MAX_DEPRIORITISE_S

FORGET_S = 60.0
"""A breaker that has been closed for this long, without a cooldown, is not published any more."""

AGREEING = 2
"""The gateways that must say that several have seen failures."""

_NEVER = float("-inf")


class SharedCircuits:
    """By the keys of breakers. known: the latest state, of any gateway."""

    def __init__(self) -> None:
        self.known: dict[str, BreakerSnapshot] = {}
        self._own: dict[str, BreakerSnapshot] = {}
        self._passed: dict[str, BreakerSnapshot] = {}

    def on_own(self, key: str, health: BreakerSnapshot) -> None:
        """A process of this gateway has changed its breaker, or this gateway has opened it."""
        self._know(key, health)
        own = _without(health, self._passed.get(key))
        known = self._own.get(key)
        self._own[key] = own if known is None else later(known, own)
        bound(self._own)

    def published(self, now: float) -> dict[str, BreakerSnapshot]:
        """Return what other gateways do not know better."""
        self._own = {
            key: one
            for key, one in self._own.items()
            if one.open_until is not None
            or max(one.at, one.retry_after_until, one.deprioritised_until) > now - FORGET_S
        }
        return self._own

    def is_open(self, key: str) -> bool:
        known = self.known.get(key)
        return known is not None and known.open_until is not None

    def adopt(
        self, key: str, told: BreakerSnapshot, published: Iterable[BreakerSnapshot]
    ) -> BreakerSnapshot:
        """Return the part of another gateway's news that holds here, and keep it.

        told: within the bounds of `bounded`. published: what each live gateway publishes of this
        breaker, all on this gateway's clock.
        """
        if told.open_until is not None and not self.is_open(key):
            agreeing = [one for one in published if one.open_until is not None and one.seen_by > 1]
            if len(agreeing) < AGREEING:
                told = structs.replace(told, at=_NEVER, open_until=None, seen_by=0)
            else:
                last = max(agreeing, key=lambda one: one.at)
                told = structs.replace(
                    told,
                    at=last.at,
                    open_until=last.open_until,
                    cooldown_s=last.cooldown_s,
                    seen_by=last.seen_by,
                )
        self._know(key, told)
        own = self._own.get(key)
        if own is not None and told.open_until is None and told.at > own.at:
            # A gateway that comes later must not take the old state of this one for news.
            self._own[key] = structs.replace(own, at=_NEVER, open_until=None, seen_by=0)
        passed = self._passed.get(key)
        self._passed[key] = later(passed, told) if passed else told
        bound(self._passed)
        return told

    def _know(self, key: str, health: BreakerSnapshot) -> None:
        known = self.known.get(key)
        self.known[key] = later(known, health) if known else health
        bound(self.known)


def bounded(health: BreakerSnapshot, rule: BreakerRule, now: float) -> BreakerSnapshot:
    """Return a snapshot of another gateway with no time beyond what the rule here allows.

    Without what it knows of refusals: its key may be another one, or wrong there alone. Nor of
    failures in a row: its network may be what fails.
    """
    until = health.open_until
    rests_until = now + rule.max_retry_after_s
    return structs.replace(
        health,
        at=min(health.at, now),
        open_until=None if until is None else min(until, now + rule.longest_s),
        cooldown_s=min(health.cooldown_s, rule.longest_s),
        retry_after_until=min(health.retry_after_until, rests_until),
        rate_limited_until=min(health.rate_limited_until, rests_until),
        deprioritised_until=min(health.deprioritised_until, now + MAX_DEPRIORITISE_S),
        last_failure=min(health.last_failure, now),
        refused_at=_NEVER,
        refused_until=_NEVER,
        failed_in_row=None,
        run_at=_NEVER,
        run_since=_NEVER,
        slow_at=_NEVER,
        slow_until=_NEVER,
    )


def _without(health: BreakerSnapshot, passed: BreakerSnapshot | None) -> BreakerSnapshot:
    """Return the part of a process's snapshot that did not come from another gateway.

    Sending that part back would add up to one sync interval to its times on each round trip.
    """
    if passed is None:
        return structs.replace(
            health,
            failed_in_row=None,
            run_at=_NEVER,
            run_since=_NEVER,
            slow_at=_NEVER,
            slow_until=_NEVER,
        )
    new = health.at != passed.at
    return BreakerSnapshot(
        at=health.at if new else _NEVER,
        open_until=health.open_until if new else None,
        cooldown_s=health.cooldown_s,
        retry_after_until=health.retry_after_until
        if health.retry_after_until != passed.retry_after_until
        else _NEVER,
        last_failure=health.last_failure if health.last_failure != passed.last_failure else _NEVER,
        deprioritised_until=health.deprioritised_until
        if health.deprioritised_until != passed.deprioritised_until
        else _NEVER,
        rate_limited_until=health.rate_limited_until
        if health.rate_limited_until != passed.rate_limited_until
        else _NEVER,
        seen_by=health.seen_by if new else 0,
    )
