"""Send the breaker, outcome and load updates of a process that serves, and apply others'."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Protocol, runtime_checkable

from strowger_gateway.gateway.coordination.breaker_messages import (
    BreakerReset,
    BreakerUpdate,
    FromWorker,
    LoadUpdate,
    OutcomeWatch,
    ToWorker,
)
from strowger_gateway.gateway.coordination.outcome_reports import OutcomeReports
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.gateway.routing.resilience.breaker_per_model import NAMED
from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.gateway.routing.resilience.lease import Lease

SEND_INTERVAL_S = 0.1
"""Interval between updates of load and outcomes. A breaker's change is sent immediately."""


class Leases(Protocol):
    """Probe leases by backend."""

    def lease(self, key: str) -> Lease: ...

    def forget(self, keys: Collection[str]) -> None:
        """The backends with these keys are gone."""
        ...


class SharedRuntime(Protocol):
    """A generation of the configuration. backends: by their names."""

    @property
    def backends(self) -> Mapping[str, Backend]: ...
    def divide_budgets(self, processes: int) -> None:
        """Take this process's part of the budgets of retries and hedges, of so many processes."""
        ...


class InFlight(Protocol):
    """Requests in flight: in this process, and in the others, as last reported."""

    others_in_flight: int

    @property
    def in_flight(self) -> int: ...


class Buffered(Protocol):
    """Bytes of bodies in memory: of this process, and of the others, as last reported."""

    others_buffered: int

    @property
    def buffered(self) -> int: ...


@runtime_checkable
class SharingGateway(Protocol):
    """A process that serves."""

    @property
    def runtime(self) -> SharedRuntime: ...
    @property
    def admission(self) -> InFlight: ...
    @property
    def shares(self) -> Buffered: ...


class StateSharing:
    """The sharing of one process; `follow` each generation of its configuration.

    differing: other gateways that run another configuration.
    """

    def __init__(
        self, gateway: SharingGateway, leases: Leases, send: Callable[[FromWorker], None]
    ) -> None:
        self._gateway = gateway
        self._leases = leases
        self._send = send
        self._outcomes = OutcomeReports(self._breaker)
        self._updates: dict[str, BreakerSnapshot] = {}
        self._attempts: dict[str, int] = {}
        self._received: dict[str, int] = {}
        self._followed: Mapping[str, Breaker] = {}
        self._totals = (0, 0)
        self._processes = 1
        self.differing = 0
        self.follow(gateway.runtime)

    def follow(self, runtime: SharedRuntime) -> None:
        """Send and receive the updates of this Runtime's breakers and loads from now on."""
        runtime.divide_budgets(self._processes)
        gone = self._followed.keys() - runtime.backends.keys()
        self._leases.forget(gone)
        for key in gone:
            self._received.pop(key, None)
        breakers = {key: backend.breaker for key, backend in runtime.backends.items()}
        known = self._followed
        replaced = [key for key, one in breakers.items() if known.get(key, one) is not one]
        if gone or replaced:
            self._send(BreakerReset(backends=(*gone, *replaced)))
        self._followed = breakers
        for key, backend in runtime.backends.items():
            breaker = backend.breaker
            breaker.changed = partial(self._changed, key)
            breaker.on_failure = partial(self._outcomes.on_failure, key)
            breaker.lease = self._leases.lease(key)
            for name, one in backend.breakers:
                self._share(key, name, one)
            backend.breakers.made = partial(self._share, key)
            backend.load.other_processes = self._received.get(key, 0)

    def on_message(self, message: ToWorker) -> None:
        """Apply an update of the other processes."""
        backends = self._gateway.runtime.backends
        match message:
            case BreakerUpdate(health=health):
                for key, one in health.items():
                    place, _, name = key.partition(NAMED)
                    if (backend := backends.get(place)) is not None:
                        (backend.breakers.of(name) if name else backend.breaker).merge(one)
            case OutcomeWatch(since=since):
                self._outcomes.watch(since, now())
            case LoadUpdate(attempts=attempts):
                for key, count in attempts.items():
                    if count or key in backends:
                        self._received[key] = count
                    if (backend := backends.get(key)) is not None:
                        backend.load.other_processes = count
                self._gateway.admission.others_in_flight = message.in_flight
                self._gateway.shares.others_buffered = message.buffered
                self.differing = message.differing
                self._processes = 1 + message.processes
                self._gateway.runtime.divide_budgets(self._processes)

    async def send_updates(self) -> None:
        """Send changed loads and outcomes every SEND_INTERVAL_S until cancelled."""
        while True:
            await asyncio.sleep(SEND_INTERVAL_S)
            if outcomes := self._outcomes.changes(now()):
                self._send(outcomes)
            gateway = self._gateway
            attempts = {
                key: backend.load.in_flight
                for key, backend in gateway.runtime.backends.items()
                if backend.load.in_flight or self._attempts.get(key)
            }
            totals = (gateway.admission.in_flight, gateway.shares.buffered)
            ended = dict.fromkeys(self._attempts.keys() - attempts.keys(), 0)
            changed = {**ended, **attempts}
            if changed == self._attempts and totals == self._totals:
                continue
            self._attempts = {key: count for key, count in attempts.items() if count}
            self._totals = totals
            self._send(LoadUpdate(attempts=changed, in_flight=totals[0], buffered=totals[1]))

    def _share(self, key: str, name: str, breaker: Breaker) -> None:
        """Share a wildcard's breaker for one model name.

        It gets no lease, so each process probes on its own: clients choose the names, and leases
        are never removed.
        """
        breaker.changed = partial(self._changed, key, name)
        breaker.on_failure = partial(self._outcomes.on_failure, key + NAMED + name)

    def _breaker(self, key: str) -> Breaker | None:
        """Return the breaker of a key, if it exists."""
        place, _, name = key.partition(NAMED)
        backend = self._gateway.runtime.backends.get(place)
        if backend is None:
            return None
        return backend.breakers.get(name) if name else backend.breaker

    def _changed(self, key: str, name: str = "") -> None:
        whole = key + NAMED + name if name else key
        breaker = self._breaker(whole)
        if breaker is None:
            return
        if not self._updates:
            asyncio.get_running_loop().call_soon(self._flush)
        self._updates[whole] = breaker.snapshot()

    def _flush(self) -> None:
        changes, self._updates = self._updates, {}
        self._send(BreakerUpdate(health=changes))
