"""The issued keys as one process knows them, and the conditions under which each is accepted."""

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, Protocol
from weakref import WeakSet

from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey, KeyList, KeySecret
from strowger_gateway.schemas.errors import Forbidden, Unauthenticated

TICK_S: Final = 0.5
"""Interval between checks for keys that have expired: one is refused so much later at most."""

NOTED_S: Final = 15.0
"""A key that is in use is noted once in this time, which costs its requests nothing in between."""

Network = IPv4Network | IPv6Network


class Follower(Protocol):
    """Caches what the keys allow."""

    def rebuild(self) -> None:
        """Use the new list."""
        ...

    def forget_seen(self) -> None:
        """Check each key again with its next request."""
        ...


class IssuedKeys:
    """The last known list; every generation of the configuration follows it.

    version: -1 until the process has received a list; it knows no issued keys until then.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """clock: Unix seconds."""
        self.clock = clock
        self.version = -1
        self.keys: tuple[IssuedKey, ...] = ()
        self._used: dict[str, float] = {}
        self._followers: WeakSet[Follower] = WeakSet()
        self._changes: tuple[float, ...] = ()
        self._noted_at = self._checked_at = clock()

    def follow(self, follower: Follower) -> None:
        """Pass every list on to it from now on, as long as something else refers to it."""
        self._followers.add(follower)

    def push(self, found: KeyList) -> None:
        """Use this list from now on."""
        self.version, self.keys = found.version, found.keys
        secrets = [one for key in found.keys for one in key.secrets]
        ends = (*(key.expires for key in found.keys), *(one.until for one in secrets))
        self._changes = tuple(sorted(at for at in ends if at is not None))
        for follower in tuple(self._followers):
            follower.rebuild()

    def note_use(self, name: str, at: float) -> None:
        self._used[name] = at

    def take_used(self) -> Mapping[str, float]:
        """Return when keys were used since the last call, by name; Unix seconds."""
        used, self._used = self._used, {}
        return used

    def tick(self) -> bool:
        """Check keys again that may have expired; return whether uses should be reported now.

        Call it every TICK_S. A clock that was set back checks everything again, too.
        """
        at = self.clock()
        before, self._checked_at = self._checked_at, at
        due = not 0 <= at - self._noted_at < NOTED_S
        if due:
            self._noted_at = at
        if self.keys and (
            due or bisect_right(self._changes, before) < bisect_right(self._changes, at)
        ):
            for follower in tuple(self._followers):
                follower.forget_seen()
        return due


def check_conditions(key: IssuedKey, secret: KeySecret, at: float) -> None:
    """Raise Unauthenticated unless the key may be used at this time, Unix seconds."""
    if key.disabled:
        raise Unauthenticated(f"the API key {key.name!r} is disabled", code="api_key_disabled")
    if key.expires is not None and at >= key.expires:
        raise Unauthenticated(
            f"the API key {key.name!r} expired at {instant(key.expires)}", code="api_key_expired"
        )
    if secret.until is not None and at >= secret.until:
        raise Unauthenticated(
            f"this secret of the API key {key.name!r} was replaced, and valid until "
            f"{instant(secret.until)}; use the new one",
            code="api_key_expired",
        )
    if key.not_before is not None and at < key.not_before:
        raise Unauthenticated(
            f"the API key {key.name!r} is not valid before {instant(key.not_before)}",
            code="api_key_not_yet_valid",
        )


def check_network(name: str, networks: Sequence[Network], address: str) -> None:
    """Raise Forbidden unless the address is in one of the networks. name: of the key.

    The client's message does not show the address: behind a proxy that is not in
    server.trusted_proxies it is the proxy's.
    """
    try:
        found = ip_address(address)
    except ValueError:
        found = None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if found is not None and any(found in network for network in networks):
        return
    error = Forbidden(
        f"the API key {name!r} may not be used from this network address",
        code="address_not_allowed",
    )
    error.logged = f"{error.message} ({address or 'unknown'})"
    raise error


def instant(at: float) -> str:
    """Format Unix seconds."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
