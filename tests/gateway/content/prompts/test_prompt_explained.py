"""`strowger explain` says which prompt a request gets, and what would be refused."""

import json
from pathlib import Path

import msgspec
import pytest

from strowger_gateway.gateway.console.explain.explanation import Explanation
from strowger_gateway.gateway.statistics.assignment import Assignment, WeightedArm
from tests.gateway.cli.command_line import run
from tests.gateway.content.prompts.prompted import config

HI = [{"role": "user", "content": "hi"}]
TRIAL = """
experiments:
  - name: trial
    model: chat
    primary: error
    variants:
      - {name: control, weight: 1, prompt: support@1}
      - {name: treatment, weight: 1, prompt: support@2}
"""
SPLIT = Assignment(
    "trial", [WeightedArm(name="control", weight=1), WeightedArm(name="treatment", weight=1)]
)


def user_of(variant: str) -> str:
    return next(f"u-{n}" for n in range(1000) if SPLIT.variant(f"u-{n}") == variant)


def explained(folder: Path, body: dict[str, object], more: str = "") -> Explanation:
    file, request = folder / "config.yaml", folder / "request.json"
    file.write_text(config("http://127.0.0.1:9/v1", folder, more))
    request.write_text(json.dumps({"model": "chat", **body}))
    found = run("explain", str(request), "--config", str(file), "--json")
    return msgspec.json.decode(found.stdout, type=Explanation)


@pytest.mark.parametrize(
    ("body", "name", "why", "repaired"),
    [
        ({"prompt_id": "support"}, "support@1", "the default version", ()),
        (
            {
                "prompt_id": "support",
                "prompt_version": "2",
                "prompt_variables": {"customer": "Ada", "mood": "x"},
            },
            "support@2",
            "which the request names",
            ("prompt_variables.mood:unused_variable",),
        ),
    ],
)
def test_it_shows_the_version_and_the_reason(
    tmp_path: Path, body: dict[str, object], name: str, why: str, repaired: tuple[str, ...]
) -> None:
    found = explained(tmp_path, {"messages": HI, **body}).prompt

    assert found is not None
    assert (found.name, found.why, found.repaired) == (name, why, repaired)


def test_it_names_repairs_of_values_as_repairs(tmp_path: Path) -> None:
    explained(
        tmp_path,
        {"messages": HI, "prompt_id": "support", "prompt_variables": {"company": 7}},
    )
    file, request = tmp_path / "config.yaml", tmp_path / "request.json"

    found = run("explain", str(request), "--config", str(file))

    assert "repaired: prompt_variables.company:as_text" in " ".join(found.stdout.split())


def test_it_shows_the_prompt_of_the_variant(tmp_path: Path) -> None:
    body: dict[str, object] = {
        "messages": HI,
        "prompt_id": "support",
        "prompt_variables": {"customer": "Ada"},
        "user": user_of("treatment"),
    }
    found = explained(tmp_path, body, TRIAL)

    assert found.experiment is not None
    assert [one.prompt for one in found.experiment.arms] == ["support@1", "support@2"]
    assert found.prompt is not None
    assert (found.prompt.name, found.prompt.why) == ("support@2", "that of variant 'treatment'")
    shown = run(
        "explain", str(tmp_path / "request.json"), "--config", str(tmp_path / "config.yaml")
    ).stdout
    assert f"prompt       support@2 ({found.prompt.digest}), that of variant 'treatment'" in shown
    assert "treatment 50 % support@2" in shown


def test_it_shows_why_a_request_takes_no_part(tmp_path: Path) -> None:
    body: dict[str, object] = {"messages": HI, "prompt_id": "support", "user": "u-1"}
    found = explained(tmp_path, body, TRIAL)

    assert found.experiment is not None
    assert "support@2 needs a value of customer" in found.experiment.excluded
    assert found.prompt is not None
    assert found.prompt.name == "support@1"


def test_it_shows_the_error_that_the_client_would_get(tmp_path: Path) -> None:
    found = explained(tmp_path, {"messages": HI, "prompt_id": "suport"})

    assert found.refused is not None
    assert (found.refused.status, found.refused.param) == (404, "prompt_id")
