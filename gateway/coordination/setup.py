"""A replica's exchange while it serves, where the configuration has one."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from secrets import token_hex

from prometheus_client.registry import CollectorRegistry

from gateway.background import OnCrash, keep_running
from gateway.config.schema import Config
from gateway.coordination.metrics import ReplicaCollector
from gateway.coordination.probe_lease import LocalProbeBlocks
from gateway.coordination.replica_sync import ReplicaSync
from gateway.coordination.replica_transport import ReplicaTransport
from gateway.coordination.state_hub import StateHub
from schemas.errors import InvalidConfig
from schemas.secret import Secret


def transport_of(config: Config) -> ReplicaTransport | None:
    """`None` where there are no other replicas. Raises InvalidConfig."""
    return None if config.store.redis_url is None else open_transport(config.store.redis_url)


@asynccontextmanager
async def replica_sync_running(
    link: ReplicaTransport | None,
    hub: StateHub,
    bars: Callable[[], LocalProbeBlocks],
    config: Callable[[], Config],
    registry: CollectorRegistry,
    crashed: OnCrash,
) -> AsyncGenerator[None, None]:
    """link: see `link_of`. bars: made where they are needed. config: what is in force.

    registry: of the metrics of this process.
    """
    if link is None:
        yield
        return
    exchange = ReplicaSync(hub, link, bars(), config)
    registry.register(ReplicaCollector(exchange))
    task = asyncio.create_task(keep_running("exchange with replicas", exchange.run, crashed))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def open_transport(url: Secret) -> ReplicaTransport:
    """To Redis, not connected yet.

    Raises InvalidConfig for an address that cannot be one, or without the extra it needs.
    """
    try:
        from gateway.coordination.redis_transport import RedisTransport
    except ImportError as exc:
        raise InvalidConfig(
            (
                "store.redis_url: Redis needs redis-py; "
                "pip install 'strowger-gateway[redis]', or leave redis_url out",
            )
        ) from exc
    return RedisTransport(url, token_hex(8))
