"""The connections of clients of one process, within its limits.

A connection takes a file descriptor, and so does each connection to a backend, each log file and
the store. So there is a limit, and beyond it connections make room that are not in use: first those
of clients that have never had an answer with a valid key, then those between two requests; among
equals those of the address that has most, and of these the oldest. A request that
is being answered is never cut. docs/adr/0071-connections-make-room.md has the reasons.
"""

import asyncio
import heapq
import ipaddress
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Final, Literal, Protocol, cast

from msgspec import Struct

from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.server.asgi.client_timeouts import ReapedConnection
from strowger_gateway.gateway.server.http1.response_head import ResponseHeads

REFUSED_LINGER_S: Final = 1.0
"""Seconds for a client to read why its connection is refused."""

_ROUNDS: Final = (16, 64, 64)
"""One look at all connections closes up to this part of them, by rank, so that their number does
not multiply the work of each new one."""

_SAY_AGAIN_S: Final = 60.0
"""Seconds between two lines of the log about the same limit."""

_RANKS: Final = ("stranger", "idle", "slow")
_Why = Literal["full", "address"]
_REFUSALS: Final[Mapping[_Why, tuple[int, str]]] = {
    "full": (503, "The gateway has too many connections; retry in a second."),
    "address": (429, "This address has too many connections; close some, and retry."),
}

_log = logging.getLogger("strowger")


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """most: connections; up to `spare` more if none of them can be closed, each for one answer.

    per_address: of one address, `None` for no limit; exempt: an address without this limit.
    files: file descriptors from which on a new connection makes room for itself.
    """

    most: int
    spare: int = 0
    per_address: int | None = None
    exempt: Callable[[str], bool] = lambda _: False
    files: int = 1 << 62


class Standing(Struct, frozen=True, kw_only=True):
    """How readily a connection is given up.

    rank: 0: its client has not had a valid answer; 1: it is between two requests; 2: its client is
    in the middle of sending or reading something. since: when this began, of
    gateway/platform/clock.py.
    """

    rank: int
    since: float


class OpenConnection(ReapedConnection, Protocol):
    """What the server does with a connection, before and after its handshake."""

    def standing(self, at: float) -> Standing | None:
        """Return how readily it is given up; `None`: its request is being answered."""
        ...

    def close_idle(self) -> None:
        """Close if the client waits for no answer and has sent no part of its next request."""
        ...

    def shutdown(self) -> None:
        """Close when the last request that has begun to arrive is answered."""
        ...

    def cut(self) -> None:
        """Cancel the request that is being answered."""
        ...

    def abort(self) -> None:
        """Close the socket now, even if data is still unsent."""
        ...


class OpenConnections(Collection[OpenConnection]):
    """crowded: there are more than `most`, so each ends with its next answer.

    closed: connections that made room, by why: `stranger`, `idle`, `slow`; and new ones that were
    refused: `full`, `address`.
    """

    def __init__(
        self,
        heads: ResponseHeads,
        limits: Callable[[], ConnectionLimits] | None = None,
        clock: Callable[[], float] = now,
    ) -> None:
        """limits: called for each new connection; `None`: there are none. heads: of refusals."""
        self.crowded = False
        self.closed: Counter[str] = Counter()
        self._heads = heads
        self._limits = limits
        self._clock = clock
        self._address: dict[object, str] = {}
        self._each: Counter[str] = Counter()
        self._refused: set[Refused] = set()
        self._said: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._address)

    def __iter__(self) -> Iterator[OpenConnection]:
        return iter(cast("dict[OpenConnection, str]", self._address))

    def __contains__(self, one: object) -> bool:
        return one in self._address

    def enter(
        self, connection: OpenConnection, transport: asyncio.Transport, *, clear: bool = True
    ) -> bool:
        """Count a new connection. Return whether it is served; otherwise it is already refused.

        transport: the socket's, or a connection that entered before and is continued by this one.
        clear: its client understands an answer in cleartext.
        """
        address = self._address.pop(transport, None)
        if address is None:
            address = client_of(transport)
            if self._limits is not None:
                why = self._admits(address, _number(transport), self._limits())
                if why is not None:
                    self._refuse(why, transport, clear=clear)
                    return False
            self._each[address] += 1
        self._address[connection] = address
        return True

    def discard(self, connection: OpenConnection) -> None:
        """The connection is gone."""
        address = self._address.pop(connection, None)
        if address is None:
            return
        if self._each[address] > 1:
            self._each[address] -= 1
        else:
            del self._each[address]
        if self.crowded and self._limits is not None:
            self.crowded = len(self._address) > self._limits().most

    def abort_refused(self) -> None:
        """Close what lingers of refused connections: the server stops."""
        for one in tuple(self._refused):
            one.end()

    def _admits(self, address: str, number: int, limits: ConnectionLimits) -> _Why | None:
        """Return why a new connection is refused, or `None`. number: of its file descriptor."""
        each = limits.per_address
        if each and address and self._each[address] >= each and not limits.exempt(address):
            self._say("server.max_connections_per_address", f"an address has {each} connections")
            return "address"
        over = len(self) + 1 - limits.most
        if over > 0 or number >= limits.files:
            self._make_room(max(over, 1), limits)
            over = len(self) + 1 - limits.most
            if over > limits.spare or number >= limits.files + limits.spare:
                self._say("server.max_connections", f"refusing more than {len(self)} connections")
                return "full"
            self.crowded = over > 0 or number >= limits.files
        return None

    def _make_room(self, wanted: int, limits: ConnectionLimits) -> None:
        """Close so many connections that serve no request now, or some more, if there are any."""
        at = self._clock()
        counts = {
            address: 0 if limits.exempt(address) else -count
            for address, count in self._each.items()
        }
        found: list[tuple[int, int, float, int, OpenConnection]] = []
        for number, one in enumerate(self):
            standing = one.standing(at)
            if standing is not None:
                count = counts[self._address[one]]
                found.append((standing.rank, count, standing.since, number, one))
        rounds = [max(wanted, limits.most // part) for part in _ROUNDS]
        chosen = heapq.nsmallest(max(rounds), found)
        chosen = [one for place, one in enumerate(chosen) if place < rounds[one[0]]]
        for rank, *_, one in chosen:
            self.closed[_RANKS[rank]] += 1
            one.abort()
            self.discard(one)  # it frees its descriptor within a turn of the event loop
        if chosen:
            self._say("server.max_connections", "many connections: closing some that are idle")

    def _refuse(self, why: _Why, transport: asyncio.Transport, *, clear: bool) -> None:
        self.closed[why] += 1
        status, text = _REFUSALS[why]
        answer = self._heads.refusal(status, text)
        Refused(self._refused, transport, answer if clear else b"")

    def _say(self, limit: str, what: str) -> None:
        at = self._clock()
        if at - self._said.get(limit, -_SAY_AGAIN_S) >= _SAY_AGAIN_S:
            self._said[limit] = at
            _log.warning("%s (%s)", what, limit)


class Refused(asyncio.Protocol):
    """A connection that is not served: its client has a moment to read why."""

    MOST: Final = 16
    """That linger at a time; others are closed at once."""

    def __init__(self, others: "set[Refused]", transport: asyncio.Transport, answer: bytes) -> None:
        self._others = others
        self._transport = transport
        transport.set_protocol(self)
        if not answer or len(others) >= self.MOST:
            transport.abort()
            return
        others.add(self)
        transport.write(answer)
        transport.write_eof()
        self._timer = asyncio.get_running_loop().call_later(REFUSED_LINGER_S, self.end)

    def eof_received(self) -> bool:
        self.end()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._others.discard(self)

    def end(self) -> None:
        """Close the socket."""
        self._timer.cancel()
        self._transport.abort()


@lru_cache(maxsize=1024)
def address_of_network(host: str) -> str:
    """Return a client's address; for IPv6 its /64, one customer's network. "" if unknown."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(found, ipaddress.IPv4Address):
        return host
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


def client_of(transport: asyncio.Transport) -> str:
    """Return the address at the other end, as `address_of_network`."""
    peer = transport.get_extra_info("peername")
    if not isinstance(peer, tuple) or not peer:
        return ""
    return address_of_network(str(cast("tuple[object, ...]", peer)[0]))


def _number(transport: asyncio.Transport) -> int:
    """The socket's file descriptor: the system gives out the lowest free one.

    https://pubs.opengroup.org/onlinepubs/9799919799/functions/V2_chap02.html, File Descriptor
    Allocation
    """
    found = transport.get_extra_info("socket")
    return -1 if found is None else cast(int, found.fileno())
