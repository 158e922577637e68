"""`providers[].client_fields`: misspelt patterns and patterns without effect are reported."""

import pytest

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.schemas.errors import InvalidConfig
from tests.gateway.config.configs import GOOD


def warnings(text: str) -> list[str]:
    """The warnings with the installed adapters."""
    told: list[str] = []
    read_config(text, source="config.yaml", env={}, warn=told.append)
    return told


def with_fields(rules: str, adapter: str = "openrouter") -> str:
    own = f"  - {{name: more, adapter: {adapter}, api_key: k, client_fields: {rules}}}\n"
    keyed = GOOD.replace("adapter: openai}", "adapter: openai, api_key: k}")
    return keyed.replace("providers:\n", f"providers:\n{own}", 1)


@pytest.mark.parametrize(
    "rules",
    [
        "{allow: [provider]}",
        "{allow: [provider.order, 'tools[].server_url']}",
        "{deny: ['*'], allow: [reasoning, 'messages[].cache_control']}",
        "{deny: [user, 'messages[].cache_control', web_search_options]}",
        "{deny: [a_parameter_of_tomorrow]}",
    ],
)
def test_what_has_an_effect_is_taken(rules: str) -> None:
    assert not [one for one in warnings(with_fields(rules)) if "client_fields" in one]


FAULTS = {
    "{allow: ['a b']}": 'allow[0]: "a b" is not a field path',
    "{deny: ['tools[']}": 'deny[0]: "tools[" is not a field path',
    "{deny: [messages]}": 'deny[0]: "messages" is a field that every request needs',
    "{allow: [provider], deny: [provider]}": 'allow[0]: "provider" is both allowed and denied; '
    "give one",
}


@pytest.mark.parametrize("rules", FAULTS)
def test_what_cannot_be_meant_is_refused(rules: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        warnings(with_fields(rules))

    assert "providers[0].client_fields." in str(caught.value)
    assert FAULTS[rules] in str(caught.value)


WARNINGS = {
    "{allow: [provder]}": 'allow[0]: "provder" has no effect: no such field is withheld from '
    'adapter "openrouter"; did you mean "provider"?',
    "{allow: [temperature]}": 'allow[0]: "temperature" has no effect',
    "{deny: [metadta]}": 'deny[0]: "metadta" is not a known field; did you mean "metadata"?',
    "{deny: [provder]}": 'deny[0]: "provder" is not a known field; did you mean "provider"?',
}


@pytest.mark.parametrize("rules", WARNINGS)
def test_what_is_misspelt_is_a_warning_with_the_closest(rules: str) -> None:
    told = [one for one in warnings(with_fields(rules)) if "client_fields" in one]

    assert len(told) == 1
    assert WARNINGS[rules] in told[0]
