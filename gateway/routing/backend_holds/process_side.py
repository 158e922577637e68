"""The holds of a serving process: put on its backends, and changed for operators."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol, TypeVar

from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.routing.backend_events.process_side import BackendEventsSide
from strowger_gateway.gateway.routing.backend_holds.hold_rows import end_hold, put_hold
from strowger_gateway.gateway.routing.backend_holds.messages import HoldList, ReadHolds
from strowger_gateway.gateway.routing.backend_holds.names import hold_of, hold_of_named
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.gateway.routing.resilience.backend_hold import BackendHold
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.schemas.errors import Unavailable

_T = TypeVar("_T")


class HeldGeneration(Protocol):
    """A generation of the configuration."""

    @property
    def backends(self) -> Mapping[str, Backend]: ...


class HoldsSide(ProcessSide[None, HoldList]):
    """holds: those of operators in effect. caps: those of the gateway itself.

    backends: of the current generation, by their keys.
    """

    receives = HoldList

    def __init__(self, at: ProcessContext) -> None:
        self._at = at
        self._events = at.side(BackendEventsSide)
        self.backends: Mapping[str, Backend] = {}
        self.holds: tuple[BackendHold, ...] = (at.first(HoldList) or HoldList()).holds
        self.caps: tuple[BackendHold, ...] = ()

    def follow(self, generation: HeldGeneration) -> None:
        self.backends = generation.backends
        self._apply()

    def on_message(self, message: HoldList) -> None:
        self.holds = message.holds
        self._apply()

    def cap(self, caps: tuple[BackendHold, ...]) -> None:
        """Hold these backends as well, because spend caps are used up."""
        self.caps = caps
        self._apply()

    async def current(self) -> tuple[BackendHold, ...]:
        """Return the holds in the store, as all gateways have them.

        Raises StoreUnavailable, and Unavailable without a leader.
        """
        return (await self._at.ask(ReadHolds(), HoldList)).holds

    async def put(self, hold: BackendHold) -> None:
        """Keep a hold, and put it into effect in all processes. Raises as `_change`."""
        await self._change(lambda store: put_hold(store.database, hold))

    async def end(self, name: str) -> BackendHold | None:
        """End a hold in all processes; return it, or `None` if there was none.

        Raises as `_change`.
        """
        return await self._change(lambda store: end_hold(store.database, name))

    async def _change(self, work: Callable[[Store], _T]) -> _T:
        """Raises StoreUnavailable if the store is away, and Unavailable without one."""
        access = self._at.access
        if access is None:
            raise Unavailable(
                "draining and disabling backends needs a store, which this gateway does not have"
            )
        found = await access.call(work)
        self.on_message(await self._at.ask(ReadHolds(), HoldList))
        return found

    def _apply(self) -> None:
        """Put the holds on the backends; this process's requests heed them from now on."""
        at = time.time()
        holds = [one for one in (*self.holds, *self.caps) if not one.is_over(at)]
        caps = [one for one in holds if one.own]
        changed = False
        for backend in self.backends.values():
            hold = hold_of(holds, backend.place) if holds else None
            if hold != backend.breaker.hold:
                changed = True
                backend.breaker.put_on_hold(hold)
            if backend.model == "*":
                backend.breakers.put_on_hold(hold, partial(hold_of_named, caps, backend.name))
        if changed:
            self._events.watch.judge()
