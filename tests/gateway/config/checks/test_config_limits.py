"""`limits`: what is refused, with the place and the remedy."""

import pytest

from strowger_gateway.gateway.config.schema.limits import Limit, LimitWho
from tests.gateway.config.configs import GOOD, faults, read, warnings

KEYS = """
auth: {mode: keys, keys: [{name: web, key: sk-web-0123456789}]}
teams: [{name: web-team}]
"""


def limits(*rows: str, more: str = KEYS) -> str:
    return f"{GOOD}{more}limits: [{', '.join('{' + row + '}' for row in rows)}]\n"


def test_a_limit_is_read_with_its_defaults() -> None:
    config = read(limits("name: a, who: {key: web}, tokens: 100_000"))

    assert config.limits == (Limit(name="a", who=LimitWho(key="web"), tokens=100_000),)
    assert (config.limits[0].per, config.limits[0].exact) == ("minute", True)


FAULTS = [
    ("name: a, who: {key: web}", "limits[0]: limits nothing; set requests, tokens or concurrent"),
    ("name: a, who: {}, requests: 1",
     "limits[0].who: needs exactly one of key, team, user and any"),
    ("name: a, who: {key: web, any: true}, requests: 1",
     "limits[0].who: needs exactly one of key, team, user and any"),
    ("name: a, who: {team: wep}, requests: 1",
     'limits[0].who.team: no team is named "wep"; available: "web-team"'),
    ("name: a, who: {key: web}, each: key, requests: 1",
     "limits[0].each: is only for who: {any: true}"),
    ("name: a, who: {any: true}, models: [chta], requests: 1",
     'limits[0].models[0]: no model is named "chta"; did you mean "chat"?'),
    ('name: a, who: {any: true}, models: ["a*b"], requests: 1',
     'limits[0].models[0]: "a*b" contains a * before its end; * is a wildcard only at the end'),
    ("name: a, who: {any: true}, requests: 0",
     "limits[0].requests: expected an integer from 1 to 1000000000000 or null, found 0"),
    ("name: a, who: {any: true}, rpm: 1",
     'limits[0].rpm: unknown key; did you mean "requests"?'),
]  # fmt: skip


@pytest.mark.parametrize(("row", "told"), FAULTS)
def test_a_limit_that_cannot_be_meant_is_refused(row: str, told: str) -> None:
    assert told in faults(limits(row))


def test_an_unknown_model_of_a_limit_is_reported_with_the_faults_of_models() -> None:
    row = "name: a, who: {any: true}, models: [chta], requests: 1"
    text = limits(row).replace("models:\n", "models:\n  - {name: empty, backends: []}\n", 1)

    found = faults(text)

    assert "models[0].backends: is empty; give at least one backend" in found
    assert 'limits[0].models[0]: no model is named "chta"; did you mean "chat"?' in found


def test_two_limits_cannot_have_one_name() -> None:
    row = "name: a, who: {any: true}, requests: 1"

    assert faults(limits(row, row)) == ['limits[1].name: "a" is already the name of limits[0]']


def test_a_limit_for_a_key_that_the_file_does_not_have_is_a_warning() -> None:
    """It may be an issued key, or a misspelt one."""
    text = limits("name: a, who: {key: wep}, requests: 1")

    assert (
        'limits[0].who.key: auth.keys has no key "wep", so the limit applies only to an issued '
        "key of that name"
    ) in warnings(text)


def test_a_limit_for_each_key_where_there_are_none_is_a_warning() -> None:
    text = limits("name: a, who: {any: true}, each: key, requests: 1", more="")

    assert "limits[0].each: has no effect: auth.mode none knows no keys" in warnings(text)
