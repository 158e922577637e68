"""Slow down clients that send many wrong keys, or fail to sign in: each time they wait longer.

Requests with a valid key are never delayed, even from an address that sends wrong keys, because
all clients may share one proxy. This slows guessing down and makes it visible; the length of the
keys is what makes guessing infeasible (docs/adr/0019).
"""

import asyncio
import ipaddress
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from litestar.types import HTTPScope

from strowger_gateway.gateway.platform.clock import now

FREE: Final = 10
"""Wrong keys per address without a delay; the count drops by one every FORGET_S seconds."""

FORGET_S: Final = 10.0
FIRST_S, LONGEST_S = 0.1, 5.0
"""First delay in seconds; it doubles with every wrong key, up to the longest."""

MAX_ADDRESSES: Final = 10_000
MOST_WAITING, MOST_WAITING_EACH = 200, 10
"""Delayed answers at a time, in all and per address; answers beyond that are not delayed."""

SHARE: Final = 8
"""Delayed requests are in flight: they take at most this part of `server.max_in_flight`."""

_log = logging.getLogger("strowger.auth")


class _Tally:
    """The wrong keys of one address. logged: whether the current burst was logged."""

    __slots__ = ("at", "count", "logged", "waiting")

    def __init__(self, at: float) -> None:
        self.at = at
        self.count = 0.0
        self.waiting = 0
        self.logged = False


class WrongKeyThrottle:
    """Count wrong keys per address; beyond MAX_ADDRESSES the oldest addresses are dropped."""

    def __init__(
        self,
        clock: Callable[[], float] = now,
        *,
        what: str = "wrong API keys",
        in_flight: Callable[[], int] = lambda: MOST_WAITING * SHARE,
    ) -> None:
        """clock: returns seconds. what: is counted, for the log.

        in_flight: returns how many requests there may be in flight.
        """
        self._what = what
        self._in_flight = in_flight
        self._clock = clock
        self._tallies: OrderedDict[str, _Tally] = OrderedDict()
        self._waiting = 0

    async def delay_answer(self, scope: HTTPScope, shown: str) -> float:
        """Count a wrong key and delay its answer. Return seconds for `retry-after`, or 0.

        shown: the client's address as the log shows it, "" if hidden.
        """
        tally, wait = self.noted(client_network(scope, shown), shown)
        if not wait:
            return 0.0
        most = min(MOST_WAITING, self._in_flight() // SHARE)
        if self._waiting < most and tally.waiting < MOST_WAITING_EACH:
            self._waiting += 1
            tally.waiting += 1
            try:
                await asyncio.sleep(wait)
            finally:
                self._waiting -= 1
                tally.waiting -= 1
        return max(wait, 1.0)

    def noted(self, client: str, shown: str = "") -> tuple[_Tally, float]:
        """Count one more wrong key. Return the address's tally and the delay in seconds."""
        at = self._clock()
        tally = self._tallies.pop(client, None)
        if tally is None:
            tally = _Tally(at)
            if len(self._tallies) >= MAX_ADDRESSES:
                self._tallies.popitem(last=False)
        self._tallies[client] = tally
        left = tally.count - (at - tally.at) / FORGET_S
        tally.at, tally.count = at, max(left, 0.0) + 1
        if tally.count <= FREE:
            tally.logged = tally.logged and left > 0
            return tally, 0.0
        if not tally.logged:
            tally.logged = True
            _log.warning("many %s from %s: delaying further ones", self._what, shown or "a client")
        tally.count = min(tally.count, FREE + 10.0)
        return tally, _delay(tally.count)

    def wait_s(self, scope: HTTPScope, shown: str) -> float:
        """Return how long the client must wait until its next attempt is looked at; 0: not at all.

        For attempts that cost something; a delayed answer would come after the work.
        """
        tally = self._tallies.get(client_network(scope, shown))
        if tally is None or tally.count <= FREE:
            return 0.0
        return max(tally.at + _delay(tally.count) - self._clock(), 0.0)

    def note_failure(self, scope: HTTPScope, shown: str) -> None:
        """Count a failed attempt."""
        self.noted(client_network(scope, shown), shown)


def _delay(count: float) -> float:
    return min(FIRST_S * 2 ** (count - FREE - 1), LONGEST_S)


def client_network(scope: HTTPScope, shown: str = "") -> str:
    """Return the client's address; for IPv6 its /64, one customer's network. "" if unknown.

    shown: the address that trusted proxies report, if there are any.
    """
    client = scope["client"]
    host = shown or (client[0] if client else "")
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return host
