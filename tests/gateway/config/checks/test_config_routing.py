"""Rules, fallbacks, policies and prices that cannot work are rejected."""

import pytest

from tests.gateway.config.configs import GOOD, faults, faults_of_model, read, with_model

FAULTS = [
    (
        "when: [{backends: [openai/gpt]}]",
        "when[0]: has no condition, so it would always match; give header, key, metadata, "
        "tokens_over or features",
    ),
    (
        "when: [{tokens_over: 5, backends: [ ]}]",
        "when[0].backends: is empty; give at least one backend",
    ),
    (
        "when: [{features: [tool], backends: [openai/gpt]}]",
        'when[0].features[0]: unknown feature "tool"; did you mean "tools"?',
    ),
    (
        "when: [{key: k, backends: [opnai/gpt]}]",
        'when[0].backends[0]: no provider is named "opnai"; did you mean "openai"?',
    ),
    (
        "when: [{key: k, backends: [here/tny]}]",
        'when[0].backends[0]: the engine of here has no model named "tny"; did you mean "tiny"?',
    ),
    (
        "fallback_by_error: [{codes: [], models: [chat]}]",
        "fallback_by_error[0].codes: is empty; give at least one",
    ),
    (
        "fallback_by_error: [{codes: [content_filter], models: [chta]}]",
        'fallback_by_error[0].models[0]: no model is named "chta"; did you mean "chat"?',
    ),
    (
        "fallback_by_error: [{codes: [content_filter], models: [m]}]",
        'fallback_by_error[0].models[0]: "m" is this model itself; name another',
    ),
    (
        "retry: {on: [timeout, conect]}",
        "retry.on[1]: expected one of "
        '"connect", "timeout", "rate_limit", "server_error", "broken_stream", found "conect"; '
        'did you mean "connect"?',
    ),
    (
        "policy: least_bussy",
        'policy: expected one of "in_order", "weighted", "least_busy", "lowest_latency", '
        '"lowest_cost", "sticky", "prefix_affinity", found "least_bussy"; '
        'did you mean "least_busy"?',
    ),
    (
        "when: [{header: {'x tier': gold}, backends: [openai/gpt]}]",
        'when[0].header["x tier"]: is not a valid header name; use letters, digits and - _',
    ),
    (
        "when: [{header: {X-Tier: gold, x-tier: silver}, backends: [openai/gpt]}]",
        "when[0].header.x-tier: is given twice; header names are case-insensitive",
    ),
    (
        "sticky_by: api_key",
        "sticky_by: has no effect under policy: weighted; remove it or set policy: sticky",
    ),
    (
        "policy: lowest_cost",
        "policy: is lowest_cost, but no backend of the model has a row in prices; add at least one",
    ),
]


@pytest.mark.parametrize(("fields", "told"), FAULTS)
def test_what_could_do_nothing_is_refused(fields: str, told: str) -> None:
    assert faults_of_model(fields) == [f"models[2].{told}"]


def test_a_price_that_is_given_twice_or_for_no_backend_is_refused() -> None:
    rows = [
        "{match: openai/gpt, input: 1, output: 2}",
        "{match: openai/gpt, input: 2, output: 2}",
        "{match: opnai/gpt, input: 1, output: 2}",
    ]

    assert faults(f"{GOOD}prices: [{', '.join(rows)}]\n") == [
        "prices[1].match: is the same as prices[0]; remove one of them",
        'prices[2].match: no provider is named "opnai"; did you mean "openai"?',
    ]


def test_service_tiers_of_the_same_name_and_the_standard_one_are_refused() -> None:
    tiers = "{name: flex, input: 1, output: 2}, {name: Flex, input: 1, output: 2}"
    row = f"service_tiers: [{tiers}, {{name: default, input: 1, output: 2}}]"

    assert faults(f"{GOOD}prices: [{{match: openai/gpt, input: 1, output: 2, {row}}}]") == [
        "prices[0].service_tiers[1].name: is the same as service_tiers[0]; remove one of them",
        "prices[0].service_tiers[2].name: is the standard tier, whose price is that of the row "
        "itself",
    ]


def test_two_tiers_of_the_same_length_are_refused() -> None:
    tier = "{above: 200_000, input: 2, output: 4}"
    row = f"{{match: openai/gpt, input: 1, output: 2, tiers: [{tier}, {tier}]}}"

    assert faults(f"{GOOD}prices: [{row}]\n") == [
        "prices[0].tiers[1].above: is the same as tiers[0]; remove one of them"
    ]


def test_a_wildcard_price_is_enough_for_lowest_cost() -> None:
    model = "policy: lowest_cost, backends: [{provider: openai, model: gpt}]"

    config = read(f"{with_model(model)}prices: [{{match: openai/*, input: 1, output: 2}}]\n")

    assert config.models[2].policy == "lowest_cost"
