"""Count refused attempts together, so that an attacker cannot fill the disk.

The first attempt of a client is recorded immediately. What it repeats within the next minute is one
more event, with their number, when the minute has passed. Beyond MOST_CLIENTS per minute, the
attempts of all further clients are one event per action, without an address. Clients that have
proved who they are have as many places of their own.
"""

import ipaddress
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Final

from msgspec.structs import replace

from strowger_gateway.gateway.audit.event import AuditEvent

WINDOW_S: Final = 60.0
MOST_CLIENTS: Final = 20
"""Clients, each with an action and a reason, that are recorded apart within one minute."""

OTHERS: Final = "further clients"
"""The reason in events about clients beyond that number."""

_Kind = tuple[str, str, str, str, str]
"""Action, kind and name of the actor, network of the client, reason."""

_COUNTED: Final = frozenset({"admin.access", "session.sign_in", "session.sign_out"})


class _Window:
    """Attempts of one kind since its first. last: the latest; count: those not yet recorded."""

    __slots__ = ("count", "last", "until")

    def __init__(self, last: AuditEvent, until: float) -> None:
        self.last = last
        self.until = until
        self.count = 0


class Repeats:
    """Not thread-safe."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """clock: seconds."""
        self._clock = clock
        self._windows: dict[_Kind, _Window] = {}

    def admit(self, event: AuditEvent) -> Iterator[AuditEvent]:
        """Yield what to record now: the event itself, or nothing if it only counts."""
        if event.outcome == "done" or event.action not in _COUNTED:
            yield event
            return
        yield from self.due()
        kind = _kind(event)
        if kind not in self._windows and self._known(event.actor_kind) >= MOST_CLIENTS:
            event = replace(event, address="", actor="", session="", target="", reason=OTHERS)
            kind = _kind(event)
        window = self._windows.get(kind)
        if window is not None:
            window.last = event
            window.count += event.count
            return
        self._windows[kind] = _Window(event, self._clock() + WINDOW_S)
        if event.reason == OTHERS:
            self._windows[kind].count = event.count
        else:
            yield event

    def due(self, *, all_of_them: bool = False) -> Iterator[AuditEvent]:
        """Yield the counts of the minutes that have passed, or also of those that have not."""
        now = self._clock()
        for kind, window in list(self._windows.items()):
            if all_of_them or now >= window.until:
                del self._windows[kind]
                if window.count:
                    yield replace(window.last, count=window.count)

    def _known(self, actor_kind: str) -> int:
        """Return the number of clients so far that are unknown, or that are not."""
        unknown = actor_kind == "unknown"
        return sum((kind[1] == "unknown") == unknown for kind in self._windows)


def _kind(event: AuditEvent) -> _Kind:
    network = _network(event.address)
    return event.action, event.actor_kind, event.actor, network, event.reason


def _network(address: str) -> str:
    """Return the address; for IPv6 its /64, which is one customer's network."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return address
