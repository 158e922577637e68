"""The shipped config.yaml serves its models."""

from pathlib import Path

from strowger_gateway.gateway.config.load import load_config

SHIPPED = Path(__file__).parents[3] / "config.yaml"


def test_a_route_that_names_no_model_has_one() -> None:
    config = load_config(SHIPPED, {})

    names = {model.name for model in config.models}
    assert config.server.default_model in names
