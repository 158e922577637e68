"""Build the prices of a configuration."""

from urllib.parse import urlsplit

from strowger_gateway.gateway.config.schema.config import Config, Provider
from strowger_gateway.gateway.routing.planning.prices import Prices

_HOST, _ADAPTER = "openrouter.ai", "openrouter-responses"
"""OpenRouter's answers state their cost in US dollars.

https://openrouter.ai/docs/use-cases/usage-accounting
"""


def prices_of(config: Config) -> Prices:
    """The operator's rows, the catalogue's for the other backends, and what vendors state."""
    rows = [*config.prices, *(row.price for row in config.catalogue if row.price is not None)]
    reporting = [one.name for one in config.providers if _states_cost(one)]
    return Prices(rows, reporting)


def _states_cost(provider: Provider) -> bool:
    host = urlsplit(provider.base_url or "").hostname or ""
    return provider.adapter == _ADAPTER or host == _HOST or host.endswith(f".{_HOST}")
