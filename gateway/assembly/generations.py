"""The configuration generations that are live in one process, until their last request."""

import asyncio
import logging
from collections.abc import Callable, Coroutine

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.backends.discovery.discovered import Discovered
from strowger_gateway.gateway.backends.gauges.readings import ReplicaReadings
from strowger_gateway.gateway.backends.replicas.process_side import UsesReplicas
from strowger_gateway.gateway.platform.background import OnCrash, ignore_crash
from strowger_gateway.gateway.stages.request_part import Closing

_log = logging.getLogger("strowger")

POLL_S = 0.1
"""Interval between checks for the end of an old generation's last request."""


class Generations(UsesReplicas):
    """The current Runtime, and earlier ones that still have requests in flight.

    What several generations share (connections, credentials) is closed with the last of them,
    and never under a running request. replicas: those that are known now.
    """

    def __init__(
        self, first: Runtime, begin: Callable[[Runtime], None], crashed: OnCrash = ignore_crash
    ) -> None:
        """begin: called with each later one; requests begin with it from then on.

        crashed: counts what cannot be closed.
        """
        self._crashed = crashed
        self.current = first
        self.replicas = first.routing.discovered
        self._begin = begin
        self._old: list[Runtime] = []
        self._ending: set[asyncio.Task[None]] = set()

    def replace(self, new: Runtime) -> None:
        """Start new requests on `new`; close the old Runtime after its last request."""
        old, self.current = self.current, new
        old.retire()
        self._old.append(old)
        self._later(self._end(old))
        self._begin(new)

    def drop(self, never_used: Runtime) -> None:
        """Close what only a generation has that does not take effect."""
        never_used.retire()
        self._later(self._close_unshared(never_used))

    def use_replicas(self, found: Discovered) -> None:
        """See UsesReplicas."""
        self.replicas = found
        if self.current.routing.discovered != found:
            self.replace(self.current.with_replicas(found))

    def use_readings(self, found: ReplicaReadings) -> None:
        """See UsesReplicas."""
        self.current.routing.use_readings(found)

    async def wait_old_requests(self) -> None:
        """Return when no old generation is left."""
        while self._ending:
            await asyncio.wait(tuple(self._ending))

    async def close(self) -> None:
        """Close everything immediately, whatever is in flight."""
        for task in tuple(self._ending):
            task.cancel()
        if self._ending:
            await asyncio.wait(tuple(self._ending))
        for old in self._old:
            await self._close_unshared(old)
        self.current.retire()
        for shared in self.current.shared():
            await self._close(shared)
        await self.current.stop()

    def _later(self, ending: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(ending)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, old: Runtime) -> None:
        while old.in_flight:  # noqa: ASYNC110  a request's end must not cost more than a count
            await asyncio.sleep(POLL_S)
        self._old.remove(old)
        await self._close_unshared(old)

    async def _close_unshared(self, old: Runtime) -> None:
        others = (self.current, *(one for one in self._old if one is not old))
        used = {id(shared) for other in others for shared in other.shared()}
        for shared in old.shared():
            if id(shared) not in used:
                await self._close(shared)

    async def _close(self, shared: Closing) -> None:
        """A bug in one costs no other its end, and no request its record."""
        try:
            await shared.aclose()
        except Exception:  # noqa: BLE001  it may be a part's
            _log.exception("internal error: %s cannot be closed", type(shared).__name__)
            self._crashed("closing")
