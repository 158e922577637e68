"""Build the facts about the models of a configuration."""

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.routing.planning.model_facts import KnownModels, known_models


def models_of(config: Config) -> KnownModels:
    """The operator's facts, and the published ones where the operator gives none."""
    return known_models(config.capabilities, config.published)
