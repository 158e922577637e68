"""Create the transport between gateways from the configuration."""

from secrets import token_hex
from typing import TYPE_CHECKING

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.coordination.gateway_transport import GatewayTransport
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.secret import Secret

if TYPE_CHECKING:
    from strowger_gateway.gateway.coordination.redis_transport import RedisTransport


def transport_of(config: Config) -> GatewayTransport | None:
    """Return the transport; `None` without `store.redis_url`. Raises InvalidConfig."""
    return None if config.store.redis_url is None else open_transport(config.store.redis_url)


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
