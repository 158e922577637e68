"""Leases that let one gateway at a time probe a backend whose circuit is open.

While a breaker is open, each gateway blocks its own processes from probing. Shortly before the
probe is due it tries to take the lease that all gateways share, and unblocks its processes while it
holds it. So no request waits for the lease. An unused lease passes to another gateway.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

from strowger_gateway.gateway.coordination.gateway_transport import Ask, GatewayTransport
from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot

AHEAD_S = 1.0
"""Time before the probe is due at which a gateway takes the lease."""

UNUSED_S = 1.0
"""Time after the probe is due at which an unused lease is released to the other gateways."""


class LocalProbeBlock(Protocol):
    """A lease among the processes of this gateway; holding it blocks their probes."""

    def available(self) -> bool: ...
    def acquire(self) -> bool: ...
    def drop(self) -> None:
        """Release immediately."""
        ...


class LocalProbeBlocks(Protocol):
    def lease(self, key: str) -> LocalProbeBlock: ...


class ProbeLeases:
    """The probe leases of one gateway.

    Keys are those of breakers; names are those of the leases, which the gateways share.
    """

    def __init__(self, transport: GatewayTransport, blocks: LocalProbeBlocks) -> None:
        self._transport = transport
        self._local = blocks
        self._blocked: set[str] = set()
        self._held: dict[str, float] = {}
        self._retry_after: dict[str, float] = {}
        self._names: dict[str, str] = {}

    async def update(
        self,
        health: Mapping[str, BreakerSnapshot],
        names: Mapping[str, str],
        gateways: int,
        now: float,
    ) -> None:
        """Take, keep or give leases as the breakers require.

        health: breakers as known to all gateways. now: monotonic seconds.
        Raises TransportUnavailable.
        """
        self._names.update(names)
        is_open = {
            key: one.open_until
            for key, one in health.items()
            if one.open_until is not None and key in names
        }
        for key in self._blocked - is_open.keys():
            self._unblock(key)
        asks: list[tuple[Ask, str]] = [
            *(("give", key) for key in self._held.keys() - is_open.keys()),
            *(ask for key, until in is_open.items() for ask in self._due(key, until, now)),
        ]
        if not asks:
            return
        answers = await self._transport.leases([(ask, self._names[key]) for ask, key in asks])
        for (ask, key), done in zip(asks, answers, strict=True):
            if ask == "take" and done:
                self._held[key] = now
            elif ask == "give" or (ask == "keep" and not done):
                self._held.pop(key, None)
                if key in is_open:
                    self._retry_after[key] = now + UNUSED_S * gateways

    def release_all(self) -> None:
        """Unblock everything: without a transport, the processes of this gateway decide alone."""
        for key in tuple(self._blocked):
            self._unblock(key)
        self._held.clear()
        self._retry_after.clear()

    def _due(self, key: str, until: float, now: float) -> Iterator[tuple[Ask, str]]:
        """Yield the lease operation for a breaker that is open until `until`, if one is needed."""
        taken = self._held.get(key)
        if taken is None:
            self._block(key)
            if until - now < AHEAD_S and now >= self._retry_after.get(key, now):
                yield "take", key
        elif key not in self._blocked and not self._local.lease(key).available():
            yield "keep", key  # a probe is in flight
        elif -UNUSED_S < until - now < AHEAD_S or now - taken < UNUSED_S:
            self._unblock(key)  # updates sent before it was taken have arrived
            yield "keep", key
        else:
            self._block(key)
            yield "give", key

    def _block(self, key: str) -> None:
        """Block the processes' probes; retried at the next update if a probe is in flight."""
        if self._local.lease(key).acquire():
            self._blocked.add(key)

    def _unblock(self, key: str) -> None:
        if key in self._blocked:
            self._blocked.discard(key)
            self._local.lease(key).drop()
