"""`budgets`: what is refused, with the place and the remedy."""

import pytest

from strowger_gateway.gateway.config.schema.budgets import Budget, CountUsd, UseModel
from strowger_gateway.gateway.config.schema.limits import LimitWho
from tests.gateway.config.configs import GOOD, faults, read, warnings

WHO = "name: a, who: {any: true}"


def budgets(*rows: str) -> str:
    return f"{GOOD}budgets: [{', '.join('{' + row + '}' for row in rows)}]\n"


def test_a_budget_is_read_with_its_defaults() -> None:
    config = read(budgets(f"{WHO}, tokens: 100_000"))

    assert config.budgets == (Budget(name="a", who=LimitWho(any=True), tokens=100_000),)
    assert (config.budgets[0].per, config.budgets[0].time_zone) == ("month", "UTC")


def test_a_word_or_a_mapping_says_what_happens() -> None:
    row = f"{WHO}, tokens: 1, on_exceeded: {{use_model: chat}}, unknown_price: {{count_usd: 0.01}}"
    plain = f"{WHO}, tokens: 1, on_exceeded: refuse, unknown_price: deny"

    assert read(budgets(row)).budgets[0].on_exceeded == UseModel(use_model="chat")
    assert read(budgets(row)).budgets[0].unknown_price == CountUsd(count_usd=0.01)
    assert read(budgets(plain)).budgets[0] == Budget(name="a", who=LimitWho(any=True), tokens=1)


FAULTS = [
    (WHO, "budgets[0]: needs exactly one of usd and tokens"),
    (f"{WHO}, usd: 1, tokens: 1", "budgets[0]: needs exactly one of usd and tokens"),
    (f"{WHO}, usd: 0",
     "budgets[0].usd: expected a number above 0, at most 1000000000.0 or null, found 0"),
    ("name: a, who: {}, tokens: 1",
     "budgets[0].who: needs exactly one of key, team, user and any"),
    (f"{WHO}, tokens: 1, models: [chta]",
     'budgets[0].models[0]: no model is named "chta"; did you mean "chat"?'),
    (f"{WHO}, tokens: 1, time_zone: Mars/North",
     'budgets[0].time_zone: "Mars/North" is not a time zone that this machine knows; write it as '
     "Europe/Berlin"),
    (f"{WHO}, tokens: 1, per: minute",
     'budgets[0].per: expected one of "day", "week", "month", "total", found "minute"'),
    (f"{WHO}, tokens: 1, on_exceeded: drop",
     'budgets[0].on_exceeded: expected a mapping or "refuse", found "drop"'),
    (f"{WHO}, tokens: 1, on_exceeded: {{use_model: chta}}",
     'budgets[0].on_exceeded.use_model: no model is named "chta"; did you mean "chat"?'),
    (f"{WHO}, tokens: 1, unknown_price: {{usd: 1}}",
     'budgets[0].unknown_price.usd: unknown key; known keys: "count_usd"'),
]  # fmt: skip


@pytest.mark.parametrize(("row", "told"), FAULTS)
def test_a_budget_that_cannot_be_meant_is_refused(row: str, told: str) -> None:
    assert told in faults(budgets(row))


def test_two_budgets_cannot_have_one_name() -> None:
    row = f"{WHO}, tokens: 1"

    assert faults(budgets(row, row)) == ['budgets[1].name: "a" is already the name of budgets[0]']


def test_a_budget_in_money_without_any_price_is_a_warning() -> None:
    assert warnings(budgets(f"{WHO}, usd: 1")) == [
        "budgets[0].usd: refuses every request: no backend has a price, neither in prices nor in "
        "the catalogue"
    ]
    assert warnings(budgets(f"{WHO}, usd: 1, unknown_price: {{count_usd: 1}}")) == []


def test_a_model_whose_backend_has_no_price_is_a_warning_of_the_budgets_that_cover_it() -> None:
    """Every request to it would be refused, and nothing else would say so."""
    text = """
providers:
  - {name: own, adapter: vllm, base_url: "http://127.0.0.1:9/v1"}
  - {name: paid, adapter: vllm, base_url: "http://127.0.0.1:9/v1"}
models:
  - {name: local, backends: [{provider: own, model: anthropic/claude-sonnet-4-5}]}
  - {name: safe, backends: [{provider: paid, model: m}], fallback: [local]}
  - {name: good, backends: [{provider: paid, model: m}]}
  - {name: any-*, backends: [{provider: own, model: "*"}]}
prices: [{match: paid/*, input: 1, output: 1}]
budgets: [{name: all, who: {any: true}, usd: 1%s}]
"""
    told = [
        f'budgets[0].usd: refuses every request to "{name}", because its backend '
        '"own/anthropic/claude-sonnet-4-5" has no price; add a row to prices (input: 0, output: 0 '
        "if it costs nothing), or set unknown_price"
        for name in ("local", "safe")
    ]

    assert warnings(text % "") == told
    assert warnings(text % ", models: [good, safe]") == told[1:]
    assert warnings(text % ", unknown_price: {count_usd: 0}") == []
    free = "prices: [{match: own/*, input: 0, output: 0}, "
    assert warnings((text % "").replace("prices: [", free)) == []
