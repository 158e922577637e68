"""Distribute breaker and load updates among the serving processes of one gateway.

A peer is anything that has joined: a worker, or the synchronisation with other replicas.
"""

import asyncio
from collections.abc import Callable

from gateway.coordination.breaker_messages import BreakerUpdate, LoadUpdate
from gateway.routing.resilience.breaker_per_model import bound
from gateway.routing.resilience.circuit_breaker import BreakerSnapshot

GATHER_S = 0.05
"""Minimum interval between load updates, in which the updates of several peers are added up."""

Send = Callable[[BreakerUpdate | LoadUpdate], None]


class StateHub:
    """The hub in the leader: each peer gets the others' updates; a new peer gets the full state."""

    def __init__(self) -> None:
        self._peers: dict[int, Send] = {}
        self._busy: dict[int, LoadUpdate] = {}
        self._processes: dict[int, int] = {}
        self._sent: dict[int, LoadUpdate] = {}
        self._health: dict[str, BreakerSnapshot] = {}
        self._timer: asyncio.TimerHandle | None = None

    def join(self, peer: int, send: Send, processes: int = 1) -> None:
        """processes: that serve; 1 for a worker."""
        self._peers[peer] = send
        self._processes[peer] = processes
        if self._health:
            send(BreakerUpdate(health=dict(self._health)))
        self._soon()

    def leave(self, peer: int) -> None:
        """Remove a peer; its requests in flight have ended."""
        self._peers.pop(peer, None)
        self._busy.pop(peer, None)
        self._processes.pop(peer, None)
        self._sent.pop(peer, None)
        self._soon()

    def on_message(self, peer: int, message: BreakerUpdate | LoadUpdate) -> None:
        """Store and forward an update of a peer."""
        match message:
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
        """Send each peer the sum of the others: the current counts, and 0 for those that ended."""
        self._timer = None
        for peer, send in self._peers.items():
            others = [busy for other, busy in self._busy.items() if other != peer]
            attempts: dict[str, int] = {}
            for busy in others:
                for key, count in busy.attempts.items():
                    attempts[key] = attempts.get(key, 0) + count
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
            ended = before.attempts.keys() - attempts.keys() if before else ()
            send(
                LoadUpdate(
                    attempts={**attempts, **dict.fromkeys(ended, 0)},
                    in_flight=whole.in_flight,
                    buffered=whole.buffered,
                    processes=whole.processes,
                    differing=whole.differing,
                )
            )


def later(one: BreakerSnapshot, other: BreakerSnapshot) -> BreakerSnapshot:
    """Merge two snapshots of one breaker: the later state, the later of each time."""
    last = one if one.at > other.at else other
    return BreakerSnapshot(
        at=last.at,
        open_until=last.open_until,
        cooldown_s=last.cooldown_s,
        retry_after_until=max(one.retry_after_until, other.retry_after_until),
        last_failure=max(one.last_failure, other.last_failure),
        deprioritised_until=max(one.deprioritised_until, other.deprioritised_until),
        rate_limited_until=max(one.rate_limited_until, other.rate_limited_until),
    )
