"""Create the gateway synchronisation from the configuration and run it while the gateway serves."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import TYPE_CHECKING

from prometheus_client.registry import CollectorRegistry

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.coordination.gateway_transport import GatewayTransport
from strowger_gateway.gateway.coordination.probe_lease import LocalProbeBlocks
from strowger_gateway.gateway.coordination.state_hub import StateHub
from strowger_gateway.gateway.platform.background import OnCrash, keep_running
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.secret import Secret

if TYPE_CHECKING:
    from strowger_gateway.gateway.coordination.key_versions import KeyVersions
    from strowger_gateway.gateway.coordination.redis_transport import RedisTransport


def transport_of(config: Config) -> GatewayTransport | None:
    """Return the transport; `None` without `store.redis_url`. Raises InvalidConfig."""
    return None if config.store.redis_url is None else open_transport(config.store.redis_url)


@asynccontextmanager
async def gateway_sync_running(
    transport: GatewayTransport | None,
    hub: StateHub,
    blocks: Callable[[], LocalProbeBlocks],
    config: Callable[[], Config],
    registry: CollectorRegistry,
    crashed: OnCrash,
    keys: "KeyVersions",
) -> AsyncGenerator[None, None]:
    """Synchronise with other gateways until the block ends; without a transport, do nothing.

    transport: see `transport_of`. blocks: creates the local leases if they are needed. config:
    returns the current configuration. registry: of this process's metrics. keys: the leader's list.
    """
    if transport is None:
        yield
        return
    # Imported here: a gateway without Redis saves 0.7 MB.
    from strowger_gateway.gateway.coordination.gateway_sync import GatewaySync
    from strowger_gateway.gateway.coordination.metrics import GatewaysCollector

    sync = GatewaySync(hub, transport, blocks(), config, keys=keys)
    registry.register(GatewaysCollector(sync))
    task = asyncio.create_task(keep_running("gateway sync", sync.run, crashed))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def open_transport(url: Secret) -> "RedisTransport":
    """Return a transport through Redis, not connected yet.

    Raises InvalidConfig for a malformed address, or without the extra it needs.
    """
    try:
        from strowger_gateway.gateway.coordination.redis_transport import RedisTransport
    except ImportError as exc:
        raise InvalidConfig(
            (
                "store.redis_url: Redis needs redis-py; "
                "pip install 'strowger-gateway[redis]', or remove redis_url",
            )
        ) from exc
    return RedisTransport(url, token_hex(8))
