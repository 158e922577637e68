"""Bound what waits and runs in an engine, and what one API key has of it."""

import time
from collections.abc import Callable

from strowger_gateway.local_engine.scheduling.key_shares import SeveralKeys
from strowger_gateway.schemas.errors import Throttled, UpstreamBusy
from strowger_gateway.schemas.holdings import Holder, Holdings

RETRY_AFTER_S = 1.0


class QueuePlaces:
    """The places of one queue, by key. One key leaves the last eighth to others, if there are any.

    name: of the engine, for errors. what: what is queued, in the plural.
    """

    def __init__(
        self, total: int, what: str, name: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._holdings = Holdings(total)
        self._several = SeveralKeys()
        self._what = what
        self._name = name
        self._clock = clock

    @property
    def total(self) -> int:
        return self._holdings.total

    def hold(self, holder: Holder, count: int) -> None:
        """Count places as taken, at most `total`.

        Raises Throttled if the key has as many as one key may have, and UpstreamBusy if all are
        taken.
        """
        holdings, now = self._holdings, self._clock()
        self._several.seen(holder, now)
        holdings.several = self._several.at(now)
        mine = holdings.by_key(holder)
        # A single large request is not refused while nothing else of its key waits.
        if holdings.several and mine and not holdings.within_bound(holder, count):
            raise Throttled(
                f"{mine} {self._what} of this key are already queued; wait for their answers",
                retry_after=RETRY_AFTER_S,
            )
        if count > holdings.free:
            raise UpstreamBusy(
                f"too many {self._what} are queued", upstream=self._name, retry_after=RETRY_AFTER_S
            )
        holdings.hold(holder, count)

    def give_back(self, holder: Holder, count: int) -> None:
        """Free places that `hold` counted."""
        self._holdings.give_back(holder, count)
