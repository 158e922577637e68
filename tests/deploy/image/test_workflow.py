"""The workflow that publishes the images pins their base, and follows GitHub's schema."""

import json
from importlib.resources import files
from typing import Any

import yaml
from jsonschema.validators import validator_for

from tests.deploy.image.dockerfile import ROOT, instructions, stages

FILE = ROOT / ".github" / "workflows" / "images.yml"
TEXT = FILE.read_text("utf-8")
WORKFLOW: dict[str, Any] = yaml.load(TEXT, yaml.BaseLoader)


def test_it_follows_githubs_schema() -> None:
    schemas = files("check_jsonschema").joinpath("builtin_schemas/vendor")
    schema = json.loads(schemas.joinpath("github-workflows.json").read_text("utf-8"))

    validator_for(schema)(schema).validate(yaml.safe_load(TEXT.replace("\non:", '\n"on":')))


def test_the_base_is_the_dockerfiles_pinned_by_digest() -> None:
    (default,) = (
        one.rest.partition("=")[2]
        for one in instructions((ROOT / "Dockerfile").read_text("utf-8"))
        if one.name == "ARG" and one.rest.startswith("BASE=")
    )

    assert WORKFLOW["env"]["BASE_TAG"] == default
    assert "pinned=$BASE_TAG@$digest" in TEXT
    assert '--build-arg "BASE=$BASE"' in TEXT


def test_it_builds_targets_that_exist_and_joins_what_it_builds() -> None:
    build, join = (WORKFLOW["jobs"][name]["strategy"]["matrix"] for name in ("build", "join"))

    assert build["target"] == join["target"]
    assert set(build["target"]) <= set(stages())
    assert [each["arch"] for each in build["machine"]] == ["amd64", "arm64"]
    assert '"$name-amd64" "$name-arm64"' in TEXT


def test_commands_take_values_from_the_environment_alone() -> None:
    steps = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]

    assert steps
    assert [step for step in steps if "${{" in step.get("run", "")] == []
    assert all("@" in step["uses"] and "#" not in step["uses"] for step in steps if "uses" in step)
