"""Poll the metrics of all replicas, each about once per second and on a connection of its own.

A reading is passed on within GATHER_S, because a receiver subtracts its own requests as of then,
and the intervals vary. If all readings were passed on together once per second, each would have an
age that never changes, and replicas with old readings would get other shares than the rest.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from msgspec import Struct
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.gateway.backends.discovery.discovered import Discovered
from strowger_gateway.gateway.backends.discovery.source import HostPort
from strowger_gateway.gateway.backends.gauges.exposition import reading_in
from strowger_gateway.gateway.backends.gauges.readings import (
    Reading,
    ReplicaReading,
    ReplicaReadings,
)
from strowger_gateway.gateway.backends.upstream.tls import TlsContexts
from strowger_gateway.gateway.backends.upstream.wire import WireTransport
from strowger_gateway.gateway.backends.upstream.wire.dialing import resolve_at
from strowger_gateway.gateway.config.schema.config import Config, Provider
from strowger_gateway.gateway.config.schema.discovery import DiscoverReplicas
from strowger_gateway.gateway.platform.background import OnCrash, ignore_crash, keep_running
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.errors import GatewayError, UpstreamBroken

_log = logging.getLogger("strowger.discovery")

EVERY_S = 1.0
"""Mean interval between two readings of a replica."""

JITTER = 0.25
"""The part by which an interval differs at random, so that gateways do not poll in step."""

GATHER_S = 0.05
"""Readings within this time are one message."""

TIMEOUT_S = 2.0
"""For one reading."""

LONGEST_S = 15.0
"""The interval grows to this while a replica has no gauges to read: it may not offer any."""

STALE_S = 5.0
"""Age at which a reading says nothing any more."""

LARGEST = 2 * 1024 * 1024
"""Bytes of a page of metrics."""


_Key = tuple[str, HostPort, int]


class _Target(Struct, frozen=True, kw_only=True):
    """Where the gauges of one replica are. port: of the metrics."""

    provider: Provider
    address: HostPort
    port: int

    @property
    def key(self) -> _Key:
        return self.provider.name, self.address, self.port


class GaugePoller(Collector):
    """The readings of all replicas. send: called with new ones; set it before `run`."""

    def __init__(self, *, crashed: OnCrash = ignore_crash, every_s: float = EVERY_S) -> None:
        self.send: Callable[[ReplicaReadings], None] = _ignore
        self._crashed = crashed
        self._every_s = every_s
        self._polled: dict[_Key, _Polled] = {}
        self._unsent: dict[_Key, Reading | None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._contexts = TlsContexts()

    async def run(self, config: Callable[[], Config], discovered: Callable[[], Discovered]) -> None:
        """Poll and send until cancelled. Both arguments return what is in effect."""
        try:
            while True:
                await asyncio.sleep(self._every_s)
                self._follow({one.key: one for one in _targets(config(), discovered())})
                self._forget_stale()
        finally:
            await self._close()

    def collect(self) -> Iterable[Metric]:
        if not self._polled:
            return
        waiting = GaugeMetricFamily(
            "strowger_replicas_waiting_requests",
            "Requests that wait at the replicas of a provider, as they report.",
            labels=("provider",),
        )
        running = GaugeMetricFamily(
            "strowger_replicas_running_requests",
            "Requests that run at the replicas of a provider, as they report.",
            labels=("provider",),
        )
        read = GaugeMetricFamily(
            "strowger_replicas_with_gauges",
            "Replicas of a provider whose gauges are read.",
            labels=("provider",),
        )
        self._forget_stale()
        for provider in dict.fromkeys(name for name, _, _ in self._polled):
            polled = [one for key, one in self._polled.items() if key[0] == provider]
            own = [one.reading for one in polled if one.reading is not None]
            waiting.add_metric((provider,), sum(one.waiting for one in own))
            running.add_metric((provider,), sum(one.running for one in own))
            read.add_metric((provider,), len(own))
        yield from (waiting, running, read)

    def _forget_stale(self) -> None:
        at = now()
        for key, one in self._polled.items():
            if one.reading is not None and at - one.read_at >= STALE_S:
                one.reading = None
                self._send_soon(key, None)

    def _follow(self, targets: Mapping[_Key, _Target]) -> None:
        """Poll these, and no others; one whose provider has changed begins again."""
        for key, one in tuple(self._polled.items()):
            if targets.get(key) != one.target:
                one.cancel()
                del self._polled[key]
                self._send_soon(key, None)
        for key, target in targets.items():
            if key not in self._polled:
                read = partial(self._send_soon, key)
                self._polled[key] = _Polled(
                    target, self._contexts, self._every_s, self._crashed, read
                )

    def _send_soon(self, key: _Key, reading: Reading | None) -> None:
        self._unsent[key] = reading
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self._send)

    def _send(self) -> None:
        self._timer = None
        unsent, self._unsent = self._unsent, {}
        self.send(
            ReplicaReadings(
                readings=tuple(
                    [
                        ReplicaReading(provider=provider, address=address, reading=reading)
                        for (provider, address, _), reading in unsent.items()
                    ]
                )
            )
        )

    async def _close(self) -> None:
        tasks = [one.cancel() for one in self._polled.values()]
        await asyncio.gather(*tasks, return_exceptions=True)
        self._polled = {}
        if self._timer is not None:
            self._timer.cancel()


class _Polled:
    """One replica that is polled. reading: the last one, as of `read_at`."""

    def __init__(
        self,
        target: _Target,
        contexts: TlsContexts,
        every_s: float,
        crashed: OnCrash,
        on_reading: Callable[[Reading], None],
    ) -> None:
        self.reading: Reading | None = None
        self.read_at = float("-inf")
        self.target = target
        self._contexts = contexts
        self._every_s = every_s
        self._on_reading = on_reading
        self._reported = False
        self._task = asyncio.create_task(keep_running("replica gauges", self._run, crashed))

    def cancel(self) -> asyncio.Task[None]:
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        """Read until cancelled; the first reading is at a random time, to spread them."""
        provider = self.target.provider
        transport = WireTransport(
            provider.base_url or "",
            name=provider.name,
            tls=provider.tls,
            max_connections=1,
            contexts=self._contexts,
            resolve=resolve_at(self.target.address.host, self.target.port),
        )
        wait_s = self._every_s * random.random()
        try:
            while True:
                await asyncio.sleep(wait_s)
                wait_s = self._every_s * random.uniform(1.0 - JITTER, 1.0 + JITTER)
                try:
                    self.reading, self.read_at = await self._read(transport), now()
                    self._on_reading(self.reading)
                except GatewayError as exc:
                    self._report(str(exc))
                    wait_s = min(LONGEST_S, max(wait_s, 2 * (now() - self.read_at)))
        finally:
            await transport.aclose()

    async def _read(self, transport: WireTransport) -> Reading:
        """Raises UpstreamError."""
        name, clock = self.target.provider.name, asyncio.get_running_loop().time
        by = clock() + TIMEOUT_S
        outbound = Outbound(target="/metrics", headers=(), body=b"", method="GET")
        reply = await transport.exchange(outbound, connect_by=by, head_by=by)
        try:
            body = await reply.body(by, LARGEST)
        finally:
            await reply.aclose()
        if reply.status != 200:
            raise UpstreamBroken(f"its /metrics answers {reply.status}", upstream=name)
        found = reading_in(body.decode("utf-8", "replace"))
        if found is None:
            raise UpstreamBroken("its /metrics has no gauges of requests", upstream=name)
        self._reported = False
        return found

    def _report(self, why: str) -> None:
        if not self._reported:
            self._reported = True
            address = self.target.address.text
            _log.warning("%s: the load of %s is not known: %s", address, address, why)


def _targets(config: Config, discovered: Discovered) -> Iterator[_Target]:
    providers = {provider.name: provider for provider in config.providers}
    for model in config.models:
        for ref in model.backends:
            if ref.discover is None or ref.discover.gauges == "off":
                continue
            for address in discovered.of(ref.discover):
                port = _port(ref.discover, address)
                yield _Target(provider=providers[ref.provider], address=address, port=port)


def _port(discover: DiscoverReplicas, address: HostPort) -> int:
    return address.port if discover.gauges_port is None else discover.gauges_port


def _ignore(found: ReplicaReadings) -> None:
    """The default of `send`."""
