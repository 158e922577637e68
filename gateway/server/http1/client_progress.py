"""What a connection waits for its client to do, and for how long already."""

import asyncio
from typing import Literal, NamedTuple

from strowger_gateway.gateway.server.asgi.client_timeouts import LEAST_RATE, unread_bytes
from strowger_gateway.gateway.server.http1.exchange import Exchange
from strowger_gateway.gateway.server.http1.open_connections import Standing

LINGER_S = 30.0
"""Seconds for a client to finish sending after it was answered; nginx's lingering_time."""

IDLE_S = 75.0
"""Seconds for which a connection without a request is kept: nginx's keepalive_timeout."""


class Wait(NamedTuple):
    """What the client has to do next: finish the head after the `last` request, or that request's
    body, read its answer, close the connection after that, or send another request."""

    last: Exchange | None
    owes: Literal["head", "body", "reading", "leaving", "nothing"]


class ClientProgress:
    """The client's progress, as the checks of its connection see it.

    body_bytes: of bodies, since the last check that restarted the clock.
    """

    __slots__ = ("_seen", "_since", "_unread", "body_bytes")

    def __init__(self) -> None:
        self.body_bytes = self._unread = 0
        self._seen: Wait | None = None
        self._since = 0.0

    def overdue(
        self, wait: Wait | None, at: float, limit_s: float, transport: asyncio.Transport
    ) -> bool:
        """Return whether the client takes too long. wait: `None` if the gateway is next."""
        if wait is None or wait != self._seen or self._advances(wait, limit_s, transport):
            self._seen, self._since, self.body_bytes = wait, at, 0
            self._unread = unread_bytes(transport) if wait and wait.owes == "reading" else 0
            return False
        limits = {"leaving": min(limit_s, LINGER_S), "nothing": IDLE_S}
        return at - self._since >= limits.get(wait.owes, limit_s)

    def standing(self, wait: Wait, at: float, *, served: bool) -> Standing | None:
        """See OpenConnection. served: a request with a valid key has had an answer."""
        last, rank = wait.last, 1 if served else 0
        if wait.owes in ("head", "body", "reading"):
            if last is not None and not last.complete and last.begun and last.hot is not None:
                return None  # with a valid key: others are answered before their body is read
            rank = 2 if rank or wait.owes == "reading" else 0
        return Standing(rank=rank, since=self._since if wait == self._seen else at)

    def forget(self) -> None:
        """The connection is gone: an exchange refers to it, so this would be a cycle."""
        self._seen = None

    def _advances(self, wait: Wait, limit_s: float, transport: asyncio.Transport) -> bool:
        """Return whether the client made enough progress for another interval."""
        if wait.owes == "body":
            return self.body_bytes >= LEAST_RATE * limit_s
        return wait.owes == "reading" and unread_bytes(transport) < self._unread
