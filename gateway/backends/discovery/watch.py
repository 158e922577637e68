"""Watch one source: keep the endpoints that are in effect, and report what has changed."""

import asyncio
import logging
from collections.abc import Callable

from msgspec import Struct

from strowger_gateway.gateway.backends.discovery.source import (
    AddressSource,
    HostPort,
    LookUp,
    LookUpFailed,
)
from strowger_gateway.gateway.platform.clock import now

_log = logging.getLogger("strowger.discovery")

MOST = 64
"""Endpoints of one source; further ones are not used."""

LEAST_S = 1.0
"""Seconds between two look-ups, however short an answer is valid."""

EMPTY_S = 30.0
"""Seconds for which a source must say that there are no replicas until that is believed."""


class AddressChange(Struct, frozen=True, kw_only=True):
    """A change of a watch's endpoints; `endpoints` are all that are there now, sorted."""

    endpoints: tuple[HostPort, ...]
    added: tuple[HostPort, ...] = ()
    removed: tuple[HostPort, ...] = ()


class WatchStatus(Struct, frozen=True, kw_only=True):
    """What is known of one source.

    known:   a look-up has succeeded.
    problem: why the last look-up failed; "" if it did not.
    failing_s: seconds since the last look-up that succeeded, while look-ups fail; otherwise 0.
    refused: addresses that are not used, each with the reason.
    failures: look-ups that failed.
    """

    source: str
    endpoints: tuple[HostPort, ...] = ()
    known: bool = False
    problem: str = ""
    failing_s: float = 0.0
    refused: tuple[str, ...] = ()
    failures: int = 0


Listener = Callable[[AddressChange], None]


class Watch:
    """The endpoints of one source, in one event loop.

    While look-ups fail, the last endpoints stay in effect: for `keep_s`, or as long as it takes if
    the source is lasting. If more than `most` are found, those in effect stay, and the first of
    the others fill the rest.
    """

    def __init__(
        self,
        source: AddressSource,
        *,
        every_s: float,
        keep_s: float,
        most: int = MOST,
        empty_s: float = EMPTY_S,
        least_s: float = LEAST_S,
        clock: Callable[[], float] = now,
    ) -> None:
        """every_s: the longest time between two look-ups; least_s: the shortest.

        empty_s: how long a source must say that nothing is there.
        """
        self._source = source
        self._every_s = every_s
        self._keep_s = keep_s
        self._most = most
        self._empty_s = min(empty_s, keep_s)
        self._least_s = min(least_s, every_s)
        self._clock = clock
        self._listeners: list[Listener] = []
        self._succeeded_at: float | None = None
        self._filled_at = clock()
        self._problem = ""
        self._refused: tuple[str, ...] = ()
        self._failures = 0
        self.endpoints: tuple[HostPort, ...] = ()

    @property
    def status(self) -> WatchStatus:
        """What is known now."""
        at = self._clock()
        since = at if self._succeeded_at is None else self._succeeded_at
        return WatchStatus(
            source=self._source.name,
            endpoints=self.endpoints,
            known=self._succeeded_at is not None,
            problem=self._problem,
            failing_s=at - since if self._problem else 0.0,
            refused=self._refused,
            failures=self._failures,
        )

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener with each later change; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def run(self) -> None:
        """Look up until cancelled."""
        while True:
            wait_s = await self.look_up()
            await asyncio.sleep(wait_s)

    async def look_up(self) -> float:
        """Look up once and notify the listeners; return the seconds until the next look-up."""
        try:
            found = await self._source.look_up()
        except LookUpFailed as exc:
            self._fail(str(exc))
            return self._every_s
        self._succeed(found)
        valid = self._every_s if found.valid_s is None else found.valid_s
        return max(self._least_s, min(valid, self._every_s))

    def _succeed(self, found: LookUp) -> None:
        at = self._clock()
        self._note(found)
        endpoints = self._limited(found.endpoints)
        if endpoints:
            self._filled_at = at
        elif self.endpoints and at - self._filled_at < self._empty_s:
            self._fail("it has no addresses")
            return
        if self._problem:
            _log.info("%s can be looked up again", self._source.name)
        self._problem = ""
        self._succeeded_at = at
        self._use(endpoints)

    def _fail(self, why: str) -> None:
        self._failures += 1
        if why != self._problem:
            kept = f"keeping {len(self.endpoints)} replicas" if self.endpoints else "no replicas"
            _log.error("%s cannot be looked up, %s: %s", self._source.name, kept, why)
        self._problem = why
        since = self._succeeded_at
        late = since is not None and self._clock() - since > self._keep_s
        if late and self.endpoints and not self._source.lasting:
            _log.error("%s: nothing known for %g s", self._source.name, self._keep_s)
            self._use(())

    def _note(self, found: LookUp) -> None:
        """Log refused addresses, and those that are too many, once as long as they stay."""
        refused = found.refused
        if len(found.endpoints) > self._most:
            more = len(found.endpoints) - self._most
            refused = (*refused, f"{more} addresses beyond the first {self._most}")
        if refused != self._refused and refused:
            _log.warning("%s: addresses ignored: %s", self._source.name, "; ".join(refused[:10]))
        self._refused = refused

    def _limited(self, found: tuple[HostPort, ...]) -> tuple[HostPort, ...]:
        if len(found) <= self._most:
            return tuple(sorted(found))
        known = frozenset(self.endpoints)
        kept = sorted(found, key=lambda one: (one not in known, one))
        return tuple(sorted(kept[: self._most]))

    def _use(self, endpoints: tuple[HostPort, ...]) -> None:
        before = frozenset(self.endpoints)
        after = frozenset(endpoints)
        if before == after:
            return
        self.endpoints = endpoints
        change = AddressChange(
            endpoints=endpoints,
            added=tuple(sorted(after - before)),
            removed=tuple(sorted(before - after)),
        )
        _log.info(
            "%s: %d replicas (added: %s; removed: %s)",
            self._source.name,
            len(endpoints),
            ", ".join(one.text for one in change.added) or "none",
            ", ".join(one.text for one in change.removed) or "none",
        )
        for listener in tuple(self._listeners):
            listener(change)
