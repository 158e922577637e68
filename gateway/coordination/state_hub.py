"""Distribute breaker and load updates among the serving processes of one gateway.

A peer is anything that has joined: a worker, or the synchronisation with other gateways.
"""

import asyncio
from collections.abc import Callable

from msgspec import structs

from strowger_gateway.gateway.coordination.breaker_messages import (
    BreakerReset,
    BreakerUpdate,
    FromWorker,
    LoadUpdate,
    OutcomeUpdate,
    OutcomeWatch,
    ToWorker,
)
from strowger_gateway.gateway.routing.resilience.breaker_per_model import NAMED, bound
from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot, later

GATHER_S = 0.05
"""Minimum interval between load updates, in which the updates of several peers are added up."""

Send = Callable[[ToWorker], None]


class StateHub:
    """The hub in the leader: each peer gets the others' updates; a new peer gets the full state."""

    def __init__(self) -> None:
        self._peers: dict[int, Send] = {}
        self._busy: dict[int, LoadUpdate] = {}
        self._processes: dict[int, int] = {}
        self._sent: dict[int, LoadUpdate] = {}
        self._health: dict[str, BreakerSnapshot] = {}
        self._count: Callable[[OutcomeUpdate], None] | None = None
        self._watch: OutcomeWatch | None = None
        self._timer: asyncio.TimerHandle | None = None

    def join(self, peer: int, send: Send, processes: int = 1) -> None:
        """processes: that serve; 1 for a worker."""
        self._peers[peer] = send
        self._processes[peer] = processes
        if self._health:
            send(BreakerUpdate(health=dict(self._health)))
        if self._watch is not None:
            send(self._watch)
        self._soon()

    def count(self, on_outcomes: Callable[[OutcomeUpdate], None]) -> None:
        """Let the peers report outcomes: to the synchronisation with other gateways."""
        self._count = on_outcomes
        self.watch(OutcomeWatch(since={}))

    def watch(self, watch: OutcomeWatch) -> None:
        """Send all peers the list of what to report, also those that join later."""
        self._watch = watch
        for send in self._peers.values():
            send(watch)

    def leave(self, peer: int) -> None:
        """Remove a peer; its requests in flight have ended."""
        self._peers.pop(peer, None)
        self._busy.pop(peer, None)
        self._processes.pop(peer, None)
        self._sent.pop(peer, None)
        self._soon()

    def on_message(self, peer: int, message: FromWorker) -> None:
        """Store and forward an update of a peer."""
        match message:
            case OutcomeUpdate():
                if self._count is not None:
                    self._count(message)
            case BreakerReset(backends=backends):
                for key in [key for key in self._health if key.partition(NAMED)[0] in backends]:
                    del self._health[key]
            case BreakerUpdate(health=health):
                for key, one in health.items():
                    known = self._health.get(key)
                    self._health[key] = one if known is None else later(known, one)
                bound(self._health)
                for other, send in self._peers.items():
                    if other != peer:
                        send(message)
            case LoadUpdate():
                known = self._busy.get(peer)
                attempts = {**(known.attempts if known else {}), **message.attempts}
                self._busy[peer] = LoadUpdate(
                    attempts={key: count for key, count in attempts.items() if count},
                    in_flight=message.in_flight,
                    buffered=message.buffered,
                    processes=message.processes,
                    differing=message.differing,
                )
                self._processes[peer] = message.processes
                self._soon()

    def _soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self._send_loads)

    def _send_loads(self) -> None:
        """Send each peer the sums of the others that have changed; 0 for those that ended."""
        self._timer = None
        total: dict[str, int] = {}
        for busy in self._busy.values():
            for key, count in busy.attempts.items():
                total[key] = total.get(key, 0) + count
        for peer, send in self._peers.items():
            own = self._busy.get(peer, _IDLE)
            others = [busy for other, busy in self._busy.items() if other != peer]
            attempts = {
                key: left
                for key, count in total.items()
                if (left := count - own.attempts.get(key, 0))
            }
            whole = LoadUpdate(
                attempts=attempts,
                in_flight=sum(busy.in_flight for busy in others),
                buffered=sum(busy.buffered for busy in others),
                processes=sum(many for other, many in self._processes.items() if other != peer),
                differing=sum(busy.differing for busy in others),
            )
            before = self._sent.get(peer)
            if whole == before:
                continue
            self._sent[peer] = whole
            known = before.attempts if before else {}
            changed = {key: count for key, count in attempts.items() if known.get(key) != count}
            ended = dict.fromkeys(known.keys() - attempts.keys(), 0)
            send(structs.replace(whole, attempts={**changed, **ended}))


_IDLE = LoadUpdate(attempts={}, in_flight=0, buffered=0)
