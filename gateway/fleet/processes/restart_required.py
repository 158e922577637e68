"""Settings that cannot change while the gateway runs."""

from collections.abc import Iterable

from strowger_gateway.gateway.config.parts.part import ConfiguredPart, restarts_needed
from strowger_gateway.gateway.config.schema.config import Config

FIXED = (
    "server.host",
    "server.port",
    "server.workers",
    "server.cors",
    "store",
    "logging.format",
    "telemetry",
)
"""Settings that are only read at start-up, besides those of parts."""


def needs_restart(parts: Iterable[ConfiguredPart], old: Config, new: Config) -> tuple[str, ...]:
    """Return one message for each such setting that differs."""
    own = [
        f"{path}: changing it needs a restart" for path in FIXED if _at(old, path) != _at(new, path)
    ]
    return (*own, *restarts_needed(parts, old, new))


def _at(config: Config, path: str) -> object:
    value: object = config
    for name in path.split("."):
        value = getattr(value, name)
    return value
