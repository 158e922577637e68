"""What an operator can hold, by name, and which backends a hold is of."""

from collections.abc import Iterable, Iterator, Sequence

from strowger_gateway.gateway.backends.discovery.addresses import parse
from strowger_gateway.gateway.config.model_patterns import covers as match_pattern
from strowger_gateway.gateway.config.problems import nearest
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.routing.resilience.backend_hold import BackendHold
from strowger_gateway.gateway.routing.resilience.replica import REPLICA_MARK
from strowger_gateway.schemas.errors import InvalidRequest


def backends_in(config: Config) -> list[str]:
    """Return PROVIDER/MODEL of all backends that a configuration uses, in its order."""
    found: dict[str, None] = {}
    for model in config.models:
        found |= dict.fromkeys(f"{ref.provider}/{ref.model}" for ref in model.backends)
        for rule in model.when:
            found |= dict.fromkeys(rule.backends)
        if model.mirror is not None:
            found[model.mirror.backend] = None
    for experiment in config.experiments:
        found |= dict.fromkeys(variant.backend for variant in experiment.variants)
    return list(found)


def is_configured(name: str, config: Config) -> bool:
    """Whether a configuration has what a hold of this name is of."""
    backend = name.partition(REPLICA_MARK)[0]
    return backend in [one.name for one in config.providers] or backend in backends_in(config)


def checked_name(name: str, config: Config) -> str:
    """Return a name that can be held. Raises InvalidRequest for one that is not configured."""
    name = name.strip()
    backend, mark, address = name.partition(REPLICA_MARK)
    if mark and backend in backends_in(config):
        _check_replica(backend, address, config)
        return name
    if not mark and is_configured(name, config):
        return name
    known = [*(one.name for one in config.providers), *backends_in(config)]
    by_model = [
        f"{ref.provider}/{ref.model}"
        for model in config.models
        if name in (model.name, *model.aliases)
        for ref in model.backends
    ]
    if by_model:
        raise InvalidRequest(
            f"name: {name!r} is a model; name one of its backends ({', '.join(by_model)}), or a "
            "provider",
            param="name",
        )
    raise InvalidRequest(
        f"name: no provider or backend is named {name!r}{nearest(name, known)}; `strowger backends "
        "list` has all of them",
        param="name",
    )


def _check_replica(backend: str, address: str, config: Config) -> None:
    """Raises InvalidRequest for an address that no replica of the backend can have."""
    provider, _, model = backend.partition("/")
    elsewhere = any(one.engines is not None for one in config.providers if one.name == provider)
    found = elsewhere or any(
        ref.discover is not None and (ref.provider, ref.model) == (provider, model)
        for served in config.models
        for ref in served.backends
    )
    if not found:
        raise InvalidRequest(
            f"name: {backend!r} has no replicas; name it without {REPLICA_MARK + address!r}",
            param="name",
        )
    try:
        parse(address)
    except ValueError as exc:
        raise InvalidRequest(f"name: the replica {address!r} {exc}", param="name") from exc


def covers(hold: BackendHold, place: str) -> bool:
    """Whether a hold is of a backend. place: PROVIDER/MODEL, with the address of its replica."""
    name = place.partition(REPLICA_MARK)[0]
    return hold.name in (place, name, name.partition("/")[0])


def hold_of(holds: Iterable[BackendHold], place: str) -> BackendHold | None:
    """Return the hold that decides about a backend: a disabling one, then the closest one.

    One that the gateway ends by itself comes after those of operators.
    """
    found = [one for one in holds if covers(one, place)]
    return min(found, key=_order, default=None)


def hold_of_named(caps: Iterable[BackendHold], wildcard: str, model: str) -> BackendHold | None:
    """Return the gateway's own hold of a name that a wildcard backend passes on.

    wildcard: PROVIDER/*.
    """
    provider = wildcard.partition("/")[0]
    for hold in caps:
        of, _, pattern = hold.name.partition("/")
        if of == provider and match_pattern((pattern,), model):
            return hold
    return None


def _order(hold: BackendHold) -> tuple[bool, bool, int]:
    return hold.state != "disabled", hold.state == "over_budget", -len(hold.name)


def without_backend(config: Config, holds: Sequence[BackendHold]) -> Iterator[str]:
    """Yield a sentence for each model, variant and mirror that holds leave without a backend."""
    models = {model.name: model for model in config.models}

    def left(name: str) -> bool:
        model = models[name]
        names = [f"{ref.provider}/{ref.model}" for ref in model.backends]
        return any(hold_of(holds, one) is None for one in names)

    for model in config.models:
        if left(model.name):
            continue
        served = [other for other in model.fallback if other in models and left(other)]
        yield (
            f"model {model.name!r}: no backend is left; its requests go to {', '.join(served)}"
            if served
            else f"model {model.name!r}: no backend is left; its requests get 503"
        )
    for model in config.models:
        if model.mirror is not None and hold_of(holds, model.mirror.backend):
            yield f"model {model.name!r}: its mirror gets no copies"
    for experiment in config.experiments:
        for variant in experiment.variants:
            if hold_of(holds, variant.backend) is not None:
                yield (
                    f"experiment {experiment.name!r}: requests of variant {variant.name!r} are "
                    "answered by other backends, and count as its fallbacks; pause it if that "
                    "lasts"
                )
