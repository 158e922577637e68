"""`strowger explain` for a model with an experiment: the unit, its variant, other variants."""

import json
from pathlib import Path

import msgspec
import pytest

from strowger_gateway.gateway.console.explain.explanation import Explanation, Reason
from strowger_gateway.gateway.statistics.assignment import Assignment, WeightedArm
from tests.gateway.cli.command_line import run, table

CONFIG = """
providers: [{name: p, adapter: openai, api_key: k}]
models:
  - name: chat
    policy: in_order
    backends: [{provider: p, model: a}, {provider: p, model: b}, {provider: p, model: c}]
    fallback: [backup]
    when: [{header: {x-tier: premium}, backends: [p/best]}]
  - {name: backup, policy: in_order, backends: [{provider: p, model: b}, {provider: p, model: d}]}
  - {name: drawn, backends: [{provider: p, model: c}]}
experiments:
  - name: a-or-b
    model: chat
    primary: error
    variants:
      - {name: control, backend: p/a, weight: 3}
      - {name: treatment, backend: p/b, weight: 1, set: {temperature: 0.2, system: Be brief.}}
  - name: by-request
    model: drawn
    assign_by: request
    primary: error
    variants: [{name: one, backend: p/a, weight: 3}, {name: two, backend: p/b, weight: 1}]
"""
SPLIT = Assignment(
    "a-or-b", [WeightedArm(name="control", weight=3), WeightedArm(name="treatment", weight=1)]
)


def user_of(variant: str) -> str:
    """A user whose assignment is that variant."""
    return next(f"u-{n}" for n in range(1000) if SPLIT.variant(f"u-{n}") == variant)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


def explained(config: Path, *words: str, model: str = "chat", **more: object) -> Explanation:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], **more}
    result = run(
        *("explain", "-", "--config", str(config), "--json", *words), typed=json.dumps(body)
    )
    assert result.exit_code == 0, result.output
    return msgspec.json.decode(result.stdout, type=Explanation)


@pytest.mark.parametrize(("variant", "backend"), [("control", "p/a"), ("treatment", "p/b")])
def test_a_units_variant_answers_first_and_no_other_ever(
    config: Path, variant: str, backend: str
) -> None:
    user = user_of(variant)

    found = explained(config, user=user)

    seen = found.experiment
    assert seen is not None
    assert (seen.name, seen.unit, seen.variant, seen.excluded) == ("a-or-b", user, variant, "")
    assert [(arm.name, arm.share) for arm in seen.arms] == [("control", 0.75), ("treatment", 0.25)]
    assert [one.backend for one in found.candidates] == [backend, "p/c", "p/d"]
    assert [one.variant for one in found.candidates] == [variant, "", ""]
    others = {one.backend: one.reasons for one in found.ruled_out}
    assert others["p/b" if backend == "p/a" else "p/a"] == (
        Reason(words="is another variant's backend"),
    )


def test_what_a_variant_sets_is_shown(config: Path) -> None:
    found = explained(config, user=user_of("treatment"), temperature=1)

    assert found.candidates[0].set == ("temperature", "system")
    assert found.candidates[1].set == ()


def test_without_a_unit_the_control_answers_and_it_does_not_count(config: Path) -> None:
    found = explained(config)

    assert found.experiment is not None
    assert found.experiment.excluded.startswith("the request has no user")
    assert found.candidates[0].variant == "control"


def test_a_request_that_a_rule_takes_is_in_no_variant(config: Path) -> None:
    found = explained(config, "--header", "x-tier: premium", user="u-1")

    assert found.experiment is not None
    assert (found.experiment.variant, found.experiment.excluded) == ("", "a `when` rule decides")
    assert found.candidates[0].backend == "p/best"


def test_a_variant_that_is_down_is_answered_by_no_variant(config: Path) -> None:
    found = explained(config, "--down", "p/a", user=user_of("control"))

    assert [one.backend for one in found.candidates] == ["p/c", "p/d"]


def test_requests_that_are_drawn_one_by_one_show_every_variant(config: Path) -> None:
    found = explained(config, model="drawn")

    first, second, rest = found.candidates
    assert (first.variant, second.variant, rest.variant) == ("one", "two", "")
    assert abs(first.share - 0.75) < 0.06
    assert abs(first.share + second.share - 1) < 1e-3


def test_a_person_reads_it_in_a_line(config: Path) -> None:
    hello = [{"role": "user", "content": "Hello"}]
    body = {"model": "chat", "messages": hello, "user": user_of("control")}

    result = run("explain", "-", "--config", str(config), typed=json.dumps(body))
    down = run("explain", "-", "--config", str(config), "--down", "p", typed=json.dumps(body))

    first, second, _ = table(result.stdout, "BACKEND")
    assert first[1:5] == ["p/a", "chat", "100 %", "variant 'control'"]
    assert second[1:4] == ["p/c", "chat", "after the variant: only candidate"]
    broken = [row[-3] for row in table(down.stdout, "BACKEND")]
    assert len(broken) == 3
    assert all(why.endswith("assumed down, but no other backend is better") for why in broken)
    assert "a-or-b (control 75 %, treatment 25 %): variant control for user 'u-" in result.stdout
