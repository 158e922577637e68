"""Cross-checks of routing: mirrors, fallbacks by error, policies and prices."""

from collections.abc import Iterator, Mapping, Sequence

from strowger_gateway.gateway.config.adapter_names import LOCAL
from strowger_gateway.gateway.config.checks.known_prices import is_priced
from strowger_gateway.gateway.config.error_codes import check_codes
from strowger_gateway.gateway.config.model_patterns import overlap
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.config import Config, Model, Provider
from strowger_gateway.gateway.config.schema.prices import Price, PriceTier
from strowger_gateway.schemas.close_names import close_names
from strowger_gateway.schemas.usage import tier_named


def check_routing(config: Config, problems: Problems) -> None:
    providers = {provider.name: provider for provider in config.providers}
    names = {model.name: model for model in config.models}
    for index, model in enumerate(config.models):
        path: Path = ("models", index)
        if model.mirror is not None:
            check_backend(model.mirror.backend, (*path, "mirror", "backend"), providers, problems)
        _fallback_by_error(model, path, names, problems)
        _policy(model, path, config, problems)
    _prices(config, providers, problems)


def check_backend(
    name: str, path: Path, providers: Mapping[str, Provider], problems: Problems
) -> None:
    """Check PROVIDER/MODEL: the provider must exist, and the model if it is a local engine's."""
    if problems.at(path) or problems.at(("providers",)) or "" in providers:
        return
    owner, _, theirs = name.partition("/")
    provider = providers.get(owner)
    if provider is None:
        problems.add(path, "no provider is named ", Found(owner), nearest(owner, providers))
    elif provider.adapter == LOCAL and provider.engine is not None:
        engine = provider.engine
        served = [one.name for one in (*engine.models, *engine.loras)]
        if served and "" not in served and theirs not in served:
            problems.add(
                path,
                f"the engine of {owner} has no model named ",
                Found(theirs),
                nearest(theirs, served),
            )


def _fallback_by_error(
    model: Model, path: Path, names: Mapping[str, Model], problems: Problems
) -> None:
    for index, row in enumerate(model.fallback_by_error):
        for field, found in (("codes", row.codes), ("models", row.models)):
            place: Path = (*path, "fallback_by_error", index, field)
            if not found and not problems.at(place):
                problems.add(place, "is empty; give at least one")
        check_codes(row.codes, (*path, "fallback_by_error", index, "codes"), problems)
        for spot, name in enumerate(row.models):
            place = (*path, "fallback_by_error", index, "models", spot)
            if problems.at(place) or "" in names:
                continue
            if name not in names:
                problems.add(place, "no model is named ", Found(name), nearest(name, names))
            elif name == model.name:
                problems.add(place, Found(name), " is this model itself; name another")


def _policy(model: Model, path: Path, config: Config, problems: Problems) -> None:
    if problems.at((*path, "policy")):
        return
    if model.sticky_by != "user" and model.policy != "sticky":
        problems.add(
            (*path, "sticky_by"),
            f"has no effect under policy: {model.policy}; remove it or set policy: sticky",
        )
    elif model.sticky_by == "api_key" and config.auth.mode == "none":
        problems.warn(
            (*path, "sticky_by"),
            "with auth.mode none no request has a key, so every request is assigned by weight",
        )
    if model.policy == "lowest_cost" and not any(_priced(model, config)):
        text = "is lowest_cost, but no backend of the model has a row in prices; add at least one"
        names = [f"{ref.provider}/{ref.model}" for ref in model.backends]
        if any(row.url for row in config.catalogue if row.backend in names):
            # Another release may know a price of this vendor's model, so it is no fault.
            problems.warn((*path, "policy"), f"{text}: the catalogue knows no price either")
        else:
            problems.add((*path, "policy"), text)


def _priced(model: Model, config: Config) -> Iterator[bool]:
    for ref in model.backends:
        yield is_priced(f"{ref.provider}/{ref.model}", config)


def _prices(config: Config, providers: Mapping[str, Provider], problems: Problems) -> None:
    seen: dict[str, int] = {}
    used = list(dict.fromkeys(reachable(config)))
    unpriced = [one for one in used if not any(overlap(one, row.match) for row in config.prices)]
    for index, price in enumerate(config.prices):
        _tiers(price.tiers, ("prices", index, "tiers"), problems)
        _service_tiers(price, ("prices", index, "service_tiers"), problems)
        path: Path = ("prices", index, "match")
        if problems.at(path):
            continue
        first = seen.setdefault(price.match, index)
        if first != index:
            problems.add(path, f"is the same as prices[{first}]; remove one of them")
        owner = price.match.partition("/")[0]
        if owner not in providers and "" not in providers and not problems.at(("providers",)):
            problems.add(path, "no provider is named ", Found(owner), nearest(owner, providers))
        elif not any(overlap(name, price.match) for name in used):
            close = close_names(price.match, unpriced)
            if close:
                problems.warn(
                    path,
                    "no model has the backend ",
                    Found(price.match),
                    f', but "{close[0]}" has no price; did you mean that?',
                )


def _service_tiers(price: Price, path: Path, problems: Problems) -> None:
    seen: dict[str, int] = {}
    for index, tier in enumerate(price.service_tiers):
        place: Path = (*path, index, "name")
        if problems.at(path) or problems.at(place):
            continue
        _tiers(tier.tiers, (*path, index, "tiers"), problems)
        first = seen.setdefault(tier.name.lower(), index)
        if first != index:
            problems.add(place, f"is the same as service_tiers[{first}]; remove one of them")
        elif not tier_named(tier.name):
            problems.add(place, "is the standard tier, whose price is that of the row itself")


def _tiers(tiers: Sequence[PriceTier], path: Path, problems: Problems) -> None:
    seen: dict[int, int] = {}
    for index, tier in enumerate(tiers):
        place: Path = (*path, index, "above")
        if problems.at(path) or problems.at(place):
            continue
        first = seen.setdefault(tier.above, index)
        if first != index:
            problems.add(place, f"is the same as tiers[{first}]; remove one of them")


def reachable(config: Config) -> Iterator[str]:
    """Every backend that a request may reach."""
    for model in config.models:
        for ref in model.backends:
            yield f"{ref.provider}/{ref.model}"
        for rule in model.when:
            yield from rule.backends
        if model.mirror is not None:
            yield model.mirror.backend
    for experiment in config.experiments:
        for variant in experiment.variants:
            yield variant.backend
