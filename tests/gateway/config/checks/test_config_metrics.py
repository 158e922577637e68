"""The contracts under `metrics`: valid and faulty ones."""

import pytest

from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.metric import MetricContract
from tests.gateway.config.configs import ADAPTERS, GOOD, faults, read, warnings, without_places

EXPERIMENT = """
experiments:
  - name: trial
    model: chat
    primary: stars
    smallest: 0.2
    harm_limits: [{metric: solved, worse_by: 0.05}]
    variants:
      - {name: control, backend: openai/gpt, weight: 50}
      - {name: treatment, backend: openai/gpt-2, weight: 50}
"""


def test_every_experiment_has_the_contracts_of_the_file() -> None:
    found = read(
        f"{GOOD}{EXPERIMENT}metrics: [{{name: stars, type: number, range: [1, 5], cap: 4}}, "
        "{name: solved, type: boolean, higher_is: worse, level: unit}]"
    )

    stars = MetricContract(name="stars", type="number", range=(1.0, 5.0), cap=4.0)
    solved = MetricContract(name="solved", type="boolean", higher_is="worse", level="unit")
    assert found.metrics == (stars, solved)
    assert found.experiments[0].contracts == found.metrics
    assert stars.words == "a number from 1 to 5, capped at 4"
    assert solved.words == (
        "true or false, higher is worse, one value per unit, the mean of its votes"
    )


def test_a_range_that_is_wider_than_what_matters_is_warned_of() -> None:
    contracts = "metrics: [{{name: stars, type: number, range: [0, {top}]{more}}}]\n"
    text = GOOD + EXPERIMENT

    (told,) = warnings(text + contracts.format(top=1000, more=""))

    assert told == (
        'experiments[0].primary: "stars" takes numbers over a range of 1000, which alone makes '
        "intervals ±1.1 wide after the planned 5,000 units per variant: more than 0.2, which "
        "matters here. Declare a narrower range, or a cap of at most 50"
    )
    assert warnings(text + contracts.format(top=1000, more=", cap: 50")) == []
    assert warnings(text + contracts.format(top=100, more="")) == []


FAULTS = [
    (
        "{name: error, type: boolean}",
        'metrics[0].name: "error" is measured by the gateway; contracts are for feedback metrics',
    ),
    (
        "{name: comment, type: boolean}",
        "metrics[0].name: a comment has no value, so it cannot have a contract; name another "
        "metric",
    ),
    (
        "{name: a, type: boolean}, {name: a, type: boolean}",
        'metrics[1].name: "a" is already in metrics[0]',
    ),
    (
        "{name: a, type: boolean, range: [0, 1]}",
        "metrics[0].range: is only for numbers, but the type is boolean; remove it",
    ),
    (
        "{name: a, type: boolean, cap: 1}",
        "metrics[0].cap: is only for numbers, but the type is boolean; remove it",
    ),
    (
        "{name: a, type: number}",
        "metrics[0].range: is missing; give the minimum and maximum of the number, such as [1, "
        "5]: without it one wrong value could decide an experiment",
    ),
    (
        "{name: a, type: number, range: [5, 1]}",
        "metrics[0].range: expected [MINIMUM, MAXIMUM], such as [1, 5]",
    ),
    (
        "{name: a, type: number, range: [1]}",
        "metrics[0].range: expected [MINIMUM, MAXIMUM], such as [1, 5]",
    ),
    (
        "{name: a, type: number, range: [0, 1e13]}",
        "metrics[0].range: must be between -1e+12 and 1e+12",
    ),
    (
        "{name: a, type: number, range: [0, 5], cap: 5}",
        "metrics[0].cap: has no effect outside the range, 0 to 5",
    ),
    (
        "{name: a, type: text}",
        'metrics[0].type: expected one of "boolean", "number", found "text"',
    ),
]


@pytest.mark.parametrize(("contracts", "fault"), FAULTS)
def test_what_no_contract_can_promise_is_a_fault(contracts: str, fault: str) -> None:
    assert faults(f"{GOOD}metrics: [{contracts}]") == [fault]


def test_contracts_are_given_in_one_place() -> None:
    (fault,) = faults(f"{GOOD}{EXPERIMENT}    contracts: []")

    assert fault.startswith("experiments[0].contracts: unknown key")


def test_a_slip_in_the_name_of_a_metric_is_warned_of() -> None:
    told: list[str] = []
    clauses = "[{metric: solve, by: 7}, {metric: solved, by: 4}]"
    decide = f"    decide: {{better: error, not_worse: {clauses}}}\n"
    contracts = "{name: stars, type: number, range: [1, 5]}, {name: solved, type: boolean}"
    text = f"{GOOD}{EXPERIMENT}{decide}metrics: [{contracts}]"
    read_config(text, source="c", env={}, adapters=ADAPTERS, warn=told.append, parts=PARTS)

    assert without_places(told) == [
        "c: experiments[0].decide.not_worse[1].by: 4 is impossible: solved is true or false, so "
        "means differ by less",
        'c: experiments[0].decide.not_worse[0].metric: "solve" has no contract, but resembles '
        '"solved", which has one',
    ]


def test_a_difference_that_no_two_means_can_have_is_warned_of() -> None:
    told: list[str] = []
    text = f"{GOOD}{EXPERIMENT}metrics: [{{name: stars, type: number, range: [0, 0.1]}}]"
    read_config(text, source="c", env={}, adapters=ADAPTERS, warn=told.append, parts=PARTS)

    assert without_places(told) == [
        "c: experiments[0].smallest: 0.2 is impossible: stars is a number from 0 to 0.1, so "
        "means differ by less"
    ]
