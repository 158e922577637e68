"""Limits and budgets of a key: as text, and which of them are in force."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.budgets import CountUsd, OwnBudget, UseModel
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.limits import OwnLimit
from strowger_gateway.gateway.governance.issued_keys.rule_text import (
    budget_from,
    limit_from,
    rule_text,
)
from strowger_gateway.gateway.governance.issued_keys.rules_in_force import (
    RulesInForce,
    budgets_in_force,
    limits_in_force,
)
from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey
from strowger_gateway.schemas.errors import InvalidConfig, InvalidRequest

CONFIG = """
auth: {mode: keys, keys: [{name: of-the-file, key: file-key-0001}]}
providers: [{name: a, adapter: openai, base_url: "http://127.0.0.1:9/v1", api_key: k}]
models:
  - {name: chat, backends: [{provider: a, model: x}]}
  - {name: cheap, aliases: [small], backends: [{provider: a, model: y}]}
prices: [{match: a/*, input: 1, output: 1}]
limits: [{name: everyone, who: {any: true}, requests: 100}]
"""
TEAMS = """
teams:
  - name: red
    models: [chat]
    limits: [{tokens: 1000, per: day}, {requests: 9}]
    budgets: [{name: small, tokens: 5}]
"""
NAMES = st.text("abcXYZ019._@:+-", min_size=1, max_size=64)
MODELS = st.lists(st.sampled_from(["*", "chat", "gpt-*", "with space", "a,b", "ü"]), min_size=1)
COUNTS = st.none() | st.integers(1, 10**12)
LIMITS = st.builds(
    OwnLimit,
    name=st.none() | NAMES,
    models=MODELS.map(tuple),
    requests=COUNTS,
    tokens=COUNTS,
    concurrent=COUNTS,
    each=st.sampled_from([None, "end_user"]),
    per=st.sampled_from(["minute", "hour", "day"]),
    exact=st.booleans(),
    wait_s=st.integers(0, 10_000).map(lambda one: one / 16),
    on_outage=st.sampled_from(["local", "refuse"]),
)
BUDGETS = st.builds(
    OwnBudget,
    name=st.none() | NAMES,
    models=MODELS.map(tuple),
    usd=st.none() | st.integers(1, 10**6).map(lambda one: one / 100),
    tokens=COUNTS,
    each=st.sampled_from([None, "end_user"]),
    per=st.sampled_from(["day", "week", "month", "total"]),
    time_zone=st.sampled_from(["UTC", "Europe/Berlin"]),
    alerts=st.lists(st.sampled_from([0.1, 0.5, 1.0])).map(tuple),
    on_exceeded=st.just("refuse")
    | st.builds(UseModel, use_model=st.sampled_from(["cheap", "a,b"])),
    unknown_price=st.just("deny") | st.builds(CountUsd, count_usd=st.integers(0, 99).map(float)),
)


@given(LIMITS)
def test_a_limit_reads_as_it_is_written(limit: OwnLimit) -> None:
    assert limit_from(rule_text(limit)) == limit


@given(BUDGETS)
def test_a_budget_reads_as_it_is_written(budget: OwnBudget) -> None:
    assert budget_from(rule_text(budget)) == budget


@given(st.text())
def test_any_text_is_a_limit_or_refused(text: str) -> None:
    try:
        found = limit_from(text)
    except InvalidRequest:
        return
    assert limit_from(rule_text(found)) == found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("requests=many", "`$.requests`"),
        ("requests=0", ">= 1"),
        ("request=5", "unknown field `request` (known: name, "),
        ("requests=5,per=minuet", "per is 'minuet', but must be one of minute, hour, day;"),
        ("requests", "'requests' is not field=value"),
        ("requests=5,requests=6", "requests is given twice"),
        ("requests=5,per=year", "per is 'year', but must be one of minute"),
        ("requests=5,each=key", "each is 'key', but must be one of end_user;"),
        ("name=a/b,requests=5", "`$.name`"),
    ],
)
def test_a_wrong_limit_is_refused_with_its_field_and_an_example(text: str, told: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        limit_from(text)

    assert told in caught.value.message
    assert caught.value.message.endswith("write it as requests=60,per=minute")


def configured(more: str = "") -> Config:
    return read_config(CONFIG + more, source="config.yaml", env={}, parts=PARTS)


def issued(name: str = "ci", **fields: Any) -> IssuedKey:
    return IssuedKey(name=name, **fields)


def test_rules_of_the_file_its_teams_and_the_keys_are_in_force_under_names_of_their_own() -> None:
    key = issued(
        limits=(OwnLimit(requests=5), OwnLimit(name="seats", concurrent=2)),
        budgets=(OwnBudget(usd=3.0),),
    )
    config = configured(TEAMS)

    limits, budgets = limits_in_force(config, [key]), budgets_in_force(config, [key])
    assert [(one.name, one.who.key, one.who.team) for one in limits] == [
        ("everyone", None, None),
        ("team:red/day", None, "red"),
        ("team:red/minute", None, "red"),
        ("key:ci/minute", "ci", None),
        ("key:ci/seats", "ci", None),
    ]
    assert [one.name for one in budgets] == ["team:red/small", "key:ci/month"]


def test_a_key_of_the_file_is_not_held_to_the_rules_of_an_issued_key_of_its_name() -> None:
    key = issued("of-the-file", limits=(OwnLimit(requests=1),), budgets=(OwnBudget(tokens=1),))

    assert [one.name for one in limits_in_force(configured(), [key])] == ["everyone"]
    assert budgets_in_force(configured(), [key]) == ()


def test_a_budget_moves_only_to_a_model_that_the_key_and_its_team_may_use() -> None:
    moving = (OwnBudget(tokens=5, on_exceeded=UseModel(use_model="cheap")),)
    config = configured(TEAMS)
    keys = [
        issued("all", budgets=moving),
        issued("by-alias", models=("small",), budgets=moving),
        issued("other", models=("chat",), budgets=moving),
        issued("of-red", team="red", budgets=moving),
    ]

    found = {one.name: one.on_exceeded for one in budgets_in_force(config, keys)}
    assert isinstance(found["key:all/month"], UseModel)
    assert isinstance(found["key:by-alias/month"], UseModel)
    assert found["key:other/month"] == found["key:of-red/month"] == "refuse"


def test_a_budget_refuses_once_the_model_that_it_moves_to_is_gone() -> None:
    moving = (OwnBudget(tokens=5, on_exceeded=UseModel(use_model="removed")),)

    (found,) = budgets_in_force(configured(), [issued("ci", budgets=moving)])

    assert found.on_exceeded == "refuse"


def test_a_budget_in_a_time_zone_that_this_machine_lacks_counts_by_utc(
    caplog: pytest.LogCaptureFixture,
) -> None:
    newer = (OwnBudget(tokens=5, time_zone="Mars/Olympus"), OwnBudget(name="b", tokens=9))

    found = budgets_in_force(configured(), [issued("ci", budgets=newer)])

    assert [one.time_zone for one in found] == ["UTC", "UTC"]
    assert [one.tokens for one in found] == [5, 9]
    assert "key:ci/month: this machine does not know the time zone 'Mars/Olympus'" in caplog.text


def test_what_is_in_force_is_the_same_object_until_it_changes() -> None:
    config = configured()
    lists: list[tuple[IssuedKey, ...]] = [(issued(limits=(OwnLimit(requests=5),)),)]
    rules = RulesInForce(lambda: config, lambda: lists[-1])
    first = rules.limits()
    lists.append((*lists[-1], issued("without-rules")))
    second = rules.limits()
    lists.append((issued(limits=(OwnLimit(requests=6),)),))

    assert first is second
    assert [one.requests for one in rules.limits()] == [100, 6]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("teams: [{name: t, limits: [{}]}]", "teams[0].limits[0]: limits nothing"),
        (
            "teams: [{name: t, limits: [{requests: 1}, {tokens: 1}]}]",
            'teams[0].limits[1].name: "minute" is already the name of limits[0]',
        ),
        ("teams: [{name: t, budgets: [{}]}]", "teams[0].budgets[0]: needs exactly one of usd"),
        (
            "teams: [{name: t, budgets: [{tokens: 1, time_zone: Mars}]}]",
            "teams[0].budgets[0].time_zone",
        ),
        (
            "teams: [{name: t, limits: [{requests: 1, models: [chatt]}]}]",
            "teams[0].limits[0].models[0]",
        ),
        (
            'budgets: [{name: "key:ci/month", who: {any: true}, tokens: 1}]',
            'budgets[0].name: "key:ci/month" begins like the names',
        ),
    ],
)
def test_a_wrong_rule_of_a_team_is_refused_with_its_place(more: str, told: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        configured(more)

    assert told in str(caught.value)
