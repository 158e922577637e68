"""Let handshakes take turns by address, a few in each turn of the event loop.

A handshake takes milliseconds of the processor, thousands of times as long as reading a request. A
client that begins many at the same moment would delay whatever else the process does.
"""

import asyncio
from collections import OrderedDict, deque
from typing import Final, Protocol

EACH_TURN: Final = 2
"""Steps of handshakes per turn of the event loop: up to 5 ms, with a key of RSA."""


class HandshakeStep(Protocol):
    """A connection whose client has sent a part of its handshake."""

    def step(self) -> None:
        """Continue the handshake with what has arrived."""
        ...


class HandshakeTurns:
    """The handshakes of one process. Create it in the event loop that it serves in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: OrderedDict[str, deque[HandshakeStep]] = OrderedDict()
        self._scheduled = False

    def step_soon(self, connection: HandshakeStep, address: str) -> None:
        """Call `step` when it is the turn of this address. A connection waits once at a time."""
        waiting = self._waiting.get(address)
        if waiting is None:
            waiting = self._waiting[address] = deque()
        waiting.append(connection)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        try:
            for _ in range(EACH_TURN):
                if not self._waiting:
                    return
                address, waiting = self._waiting.popitem(last=False)
                connection = waiting.popleft()
                if waiting:
                    self._waiting[address] = waiting  # behind the others
                connection.step()
        finally:
            if self._waiting:
                self._schedule()
