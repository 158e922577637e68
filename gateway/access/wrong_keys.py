"""Wrong keys: whoever sends many of them waits longer and longer for each answer.

A right key is served at once from everywhere, also from an address that sends wrong ones, because
all clients may come from one proxy. So this slows guessing and shows it; that keys cannot be
guessed is up to their length (docs/adr/0019).
"""

import asyncio
import ipaddress
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from litestar.types import HTTPScope

from gateway.clock import now

FREE: Final = 10
"""Wrong keys of an address that are answered at once; one is forgotten every FORGET_S."""

FORGET_S: Final = 10.0
FIRST_S, LONGEST_S = 0.1, 5.0
"""The first wait, which doubles with every wrong key, up to the longest."""

MAX_ADDRESSES: Final = 10_000
MOST_WAITING, MOST_WAITING_EACH = 200, 10
"""Answers that are held back at a time, in all and of one address; others go out at once."""

_log = logging.getLogger("strowger.auth")


class _Tally:
    """Of one address. logged: since its last burst began."""

    __slots__ = ("at", "count", "logged", "waiting")

    def __init__(self, at: float) -> None:
        self.at = at
        self.count = 0.0
        self.waiting = 0
        self.logged = False


class WrongKeyThrottle:
    """Counts wrong keys by address; the oldest of too many addresses are forgotten."""

    def __init__(self, clock: Callable[[], float] = now) -> None:
        """clock: seconds."""
        self._clock = clock
        self._tallies: OrderedDict[str, _Tally] = OrderedDict()
        self._waiting = 0

    async def delay_answer(self, scope: HTTPScope, shown: str) -> float:
        """Note a wrong key, and hold its answer back. Returns seconds for `retry-after`, or 0.

        shown: the client's address as the log shows it, "" where it shows none.
        """
        tally, wait = self.noted(client_network(scope, shown), shown)
        if not wait:
            return 0.0
        if self._waiting < MOST_WAITING and tally.waiting < MOST_WAITING_EACH:
            self._waiting += 1
            tally.waiting += 1
            try:
                await asyncio.sleep(wait)
            finally:
                self._waiting -= 1
                tally.waiting -= 1
        return max(wait, 1.0)

    def noted(self, client: str, shown: str = "") -> tuple[_Tally, float]:
        """The address's tally with one more, and how long its answer is to wait, seconds."""
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
            _log.warning(
                "many wrong keys from %s: answers to further ones are delayed", shown or "a client"
            )
        tally.count = min(tally.count, FREE + 10.0)
        return tally, min(FIRST_S * 2 ** (tally.count - FREE - 1), LONGEST_S)


def client_network(scope: HTTPScope, shown: str = "") -> str:
    """The client's; of IPv6 its network of 64 bits, which is one customer's. "" where unknown.

    shown: the one that trusted proxies tell of, where there are any.
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
