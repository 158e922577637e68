"""Experiments whose control has nothing to fall back to: `strowger check` warns of them."""

from collections.abc import Iterator

from strowger_gateway.gateway.config.schema.config import Config


def lonely_controls(config: Config) -> Iterator[str]:
    """Yield a sentence for each control that is alone while variants at other vendors work."""
    models = {model.name: model for model in config.models}
    for index, experiment in enumerate(config.experiments):
        model = models.get(experiment.model)
        arms = {variant.backend for variant in experiment.variants}
        if model is None or len({one.partition("/")[0] for one in arms}) < 2:
            continue
        tried = (model, *(models[name] for name in model.fallback if name in models))
        backends = {f"{ref.provider}/{ref.model}" for one in tried for ref in one.backends}
        if len(backends) > 1 or backends - arms:
            continue  # several backends that are all arms have a warning of their own
        yield (
            f"experiments[{index}].model: variant {experiment.control.name} has no backend to fall "
            "back to: while its vendor is down, its users get errors although other variants work; "
            "give the model another backend, at weight 0, or a fallback"
        )
