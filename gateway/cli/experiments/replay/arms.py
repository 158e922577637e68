"""The arms and the judge of a replay: variants of an experiment or models, and what they cost."""

from collections.abc import Sequence

from strowger_gateway.gateway.assembly.wiring.prices import prices_of
from strowger_gateway.gateway.cli.config_loading import Faults
from strowger_gateway.gateway.cli.experiments.replay.added_texts import added_tokens
from strowger_gateway.gateway.config.problems import nearest
from strowger_gateway.gateway.config.schema.config import Config, Model
from strowger_gateway.gateway.config.schema.experiment import Experiment, Variant
from strowger_gateway.gateway.experiments.replay.definition import Definition, ReplayArm
from strowger_gateway.gateway.experiments.replay.spending import Bound, ModelPrice
from strowger_gateway.gateway.experiments.replay.work import ReplayPrices


def experiment_of(config: Config, name: str) -> Experiment | None:
    return next((one for one in config.experiments if one.name == name), None)


def arms_of(config: Config, name: str, words: Sequence[str]) -> tuple[ReplayArm, ReplayArm]:
    """Return control and treatment. words: names of variants or models; (): both variants.

    Raises Faults.
    """
    experiment = experiment_of(config, name)
    variants = () if experiment is None else tuple(one.name for one in experiment.variants)
    if not words:
        if len(variants) != 2:
            what = (
                f"{name} has {len(variants)} variants"
                if experiment
                else f"no experiment of the configuration is named {name!r}"
            )
            raise Faults((f"--arms: {what}; name two variants or models, control first",))
        words = variants
    if len(words) != 2 or words[0] == words[1]:
        raise Faults(("--arms: name two different ones, control first: --arms control,treatment",))
    if experiment is not None and any(word in variants for word in words):
        return _variant(experiment, words[0]), _variant(experiment, words[1])
    return _plain(config, words[0], "--arms"), _plain(config, words[1], "--arms")


def _variant(experiment: Experiment, name: str) -> ReplayArm:
    names = [one.name for one in experiment.variants]
    if name not in names:
        hint = nearest(name, names)
        raise Faults((f"--arms: {name!r} is not a variant of {experiment.name}{hint}",))
    if not experiment.replay_keys:
        raise Faults(
            (
                f"--arms: {experiment.name} has no replay_keys; add the name of the key with which "
                "its variants are replayed, or name models",
            )
        )
    return ReplayArm(name=name, model=experiment.model, variant=f"{experiment.name}/{name}")


def _plain(config: Config, name: str, option: str) -> ReplayArm:
    model = model_of(config, name, option)
    for experiment in config.experiments:
        if experiment.model == model.name:
            variants = ", ".join(one.name for one in experiment.variants)
            raise Faults(
                (
                    f"{option}: requests to {name} take part in the experiment {experiment.name}; "
                    f"name its variants ({variants}) with `replay {experiment.name}`, "
                    "or another model",
                )
            )
    return ReplayArm(name=name, model=name)


def model_of(config: Config, name: str, option: str) -> Model:
    """Return the model that a name requests. Raises Faults."""
    for model in config.models:
        if name == model.name or name in model.aliases:
            return model
    wild = [one for one in config.models if one.name.endswith("*")]
    for model in sorted(wild, key=lambda one: -len(one.name)):
        if name.startswith(model.name[:-1]):
            return model
    names = [one.name for one in config.models]
    raise Faults((f"{option}: no model is named {name!r}{nearest(name, names)}",))


def judge_of(config: Config, name: str) -> str:
    """Check that requests to the judge do not take part in an experiment. Raises Faults."""
    return _plain(config, name, "--judge").model


def backends_of(config: Config, arm: ReplayArm) -> tuple[str, ...]:
    """Return the backends that may answer an arm's requests, as PROVIDER/MODEL."""
    models = {one.name: one for one in config.models}
    found: dict[str, None] = {}
    variant = _variant_of(config, arm)
    if variant is not None:
        found[variant.backend] = None
    own = model_of(config, arm.model, "--arms")
    others = [*own.fallback, *(name for row in own.fallback_by_error for name in row.models)]
    for model in (own, *(models[name] for name in others if name in models)):
        names = [f"{one.provider}/{one.model}" for one in model.backends]
        names += [name for rule in model.when for name in rule.backends]
        found |= {_named(name, arm.model): None for name in names}
    return tuple(found)


def _variant_of(config: Config, arm: ReplayArm) -> Variant | None:
    experiment = experiment_of(config, arm.variant.partition("/")[0]) if arm.variant else None
    variants = () if experiment is None else experiment.variants
    return next((one for one in variants if one.name == arm.name), None)


def _named(backend: str, model: str) -> str:
    return f"{backend[:-1]}{model}" if backend.endswith("/*") else backend


def prices_for(config: Config, definition: Definition, bound: Bound) -> ReplayPrices:
    """Return what calls cost. Raises Faults if the bound is in dollars, and a price is unknown."""
    known = prices_of(config)
    control, treatment = (
        ModelPrice(known, backends_of(config, arm), added_tokens(config, _variant_of(config, arm)))
        for arm in definition.arms
    )
    judge = None
    if definition.judge:
        arm = ReplayArm(name=definition.judge, model=definition.judge)
        judge = ModelPrice(known, backends_of(config, arm))
    found = [one for one in (control, treatment, judge) if one is not None]
    unpriced = sorted({name for one in found for name in one.unpriced})
    if unpriced and bound.nanos is not None:
        raise Faults(
            (
                f"--max-usd: the price of {', '.join(unpriced)} is unknown; add it to prices, "
                "or bound the run with --max-tokens",
            )
        )
    if bound.nanos is None and bound.tokens is None:
        raise Faults(("give --max-usd, or --max-tokens where prices are unknown",))
    return ReplayPrices(arms=(control, treatment), judge=judge)


def is_judged_by_arm(config: Config, definition: Definition) -> bool:
    """Whether the judge is one of the models that it judges."""
    if not definition.judge:
        return False
    judge = ReplayArm(name=definition.judge, model=definition.judge)
    own = set(backends_of(config, judge)[:1])
    return any(own & set(backends_of(config, arm)[:1]) for arm in definition.arms)
