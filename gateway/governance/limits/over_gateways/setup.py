"""Create the limits of all gateways from the configuration."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.limits import Limit
from strowger_gateway.gateway.coordination.setup import open_transport

if TYPE_CHECKING:
    from strowger_gateway.gateway.governance.limits.over_gateways.shared_limits import SharedLimits


def shared_limits(config: Config, limits: Callable[[], tuple[Limit, ...]]) -> "SharedLimits | None":
    """Return the limits of all gateways, to be run; `None` without `store.redis_url`.

    limits: those of the current configuration. Raises InvalidConfig.
    """
    if config.store.redis_url is None:
        return None
    # Imported here: a gateway without Redis saves 0.7 MB.
    from strowger_gateway.gateway.governance.limits.over_gateways.shared_limits import SharedLimits

    transport = open_transport(config.store.redis_url)
    return SharedLimits(transport, transport.name, limits)
