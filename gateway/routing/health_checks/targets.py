"""What is checked: servers by path, and backends by request."""

from collections.abc import Mapping

from msgspec import Struct

from strowger_gateway.gateway.config.schema.config import Config, Provider
from strowger_gateway.gateway.config.schema.connection import HealthCheck
from strowger_gateway.gateway.routing.backend_events.watch import MIRROR
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.gateway.routing.resilience.replica import REPLICA_MARK


class CheckTarget(Struct, frozen=True, kw_only=True, eq=False):
    """One check. name: of the server or backend, for events.

    backends: to which its result applies: of all models. address: of a replica, or "".
    """

    name: str
    provider: Provider
    check: HealthCheck
    backends: tuple[Backend, ...]
    address: str = ""


def targets_of(config: Config, backends: Mapping[str, Backend]) -> dict[str, CheckTarget]:
    """Return the targets of a configuration, by name. backends: by `MODEL: PROVIDER/MODEL`.

    A server is checked once, and so is a backend, however many models it serves.
    """
    checks = {one.name: one for one in config.providers if one.health_check is not None}
    if not checks:
        return {}
    discovered = {
        f"{ref.provider}/{ref.model}"
        for model in config.models
        for ref in model.backends
        if ref.discover is not None
    }
    found: dict[str, list[Backend]] = {}
    for key, backend in backends.items():
        if backend.replica is None and backend.name in discovered:
            continue  # none of its replicas is known
        provider = checks.get(backend.name.partition("/")[0])
        if provider is None or provider.health_check is None or key.endswith(MIRROR):
            continue
        if provider.health_check.path is None:
            if backend.model != "*":
                found.setdefault(backend.place, []).append(backend)
        else:
            replica = backend.replica
            place = "" if replica is None else f"{REPLICA_MARK}{replica.address}"
            found.setdefault(f"{provider.name}{place}", []).append(backend)
    return {name: _target(name, checks, ones) for name, ones in found.items()}


def _target(name: str, providers: Mapping[str, Provider], backends: list[Backend]) -> CheckTarget:
    provider = providers[backends[0].name.partition("/")[0]]
    assert provider.health_check is not None
    return CheckTarget(
        name=name,
        provider=provider,
        check=provider.health_check,
        backends=tuple(backends),
        address=name.partition(REPLICA_MARK)[2],
    )
