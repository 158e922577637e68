"""Build the prices of a configuration."""

from urllib.parse import urlsplit

from gateway.config.schema import Config, Provider
from gateway.routing.planning.prices import Prices

_HOST, _ADAPTER = "openrouter.ai", "openrouter-responses"
"""OpenRouter's answers state their cost in US dollars.

https://openrouter.ai/docs/use-cases/usage-accounting
"""


def prices_of(config: Config) -> Prices:
    """The rows of the configuration, and the providers whose answers state their cost."""
    return Prices(config.prices, [one.name for one in config.providers if _states_cost(one)])


def _states_cost(provider: Provider) -> bool:
    host = urlsplit(provider.base_url or "").hostname or ""
    return provider.adapter == _ADAPTER or host == _HOST or host.endswith(f".{_HOST}")
