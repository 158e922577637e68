"""Settings that cannot change while the gateway runs."""

from strowger_gateway.gateway.config.schema.config import Config

FIXED = (
    "server.host",
    "server.port",
    "server.workers",
    "server.cors",
    "store",
    "audit",
    "logging.format",
    "telemetry",
)
"""Settings that are only read at start-up."""


def needs_restart(old: Config, new: Config) -> tuple[str, ...]:
    """Return one message for each such setting that differs."""
    found = [
        f"{path}: changing it needs a restart" for path in FIXED if _at(old, path) != _at(new, path)
    ]
    if (old.server.tls is None) != (new.server.tls is None):
        found.append("server.tls: adding or removing it needs a restart")
    return tuple(found)


def _at(config: Config, path: str) -> object:
    value: object = config
    for name in path.split("."):
        value = getattr(value, name)
    return value
