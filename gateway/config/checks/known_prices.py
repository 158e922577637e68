"""Which costs can be known: by the operator's prices, and by the catalogue."""

from strowger_gateway.gateway.config.model_patterns import overlap
from strowger_gateway.gateway.config.schema.config import Config


def has_prices(config: Config) -> bool:
    """Whether the cost of any backend is known."""
    return bool(config.prices) or any(row.price is not None for row in config.catalogue)


def is_priced(backend: str, config: Config) -> bool:
    """Whether a backend's cost is known. One with a wildcard may be: the model is the client's."""
    if any(overlap(backend, row.match) for row in config.prices):
        return True
    return any(row.backend == backend and row.price is not None for row in config.catalogue)
