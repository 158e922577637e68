"""The engine's pods as an InferencePool: valid, and fitting the pods and each other."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema.validators import validator_for

from strowger_gateway.gateway.config.load import read_config
from tests.deploy.kubernetes.rendering import (
    KUBECTL,
    ROOT,
    Manifest,
    config_of,
    container,
    one,
    with_components,
)

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

SCHEMAS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "inference_schemas.json").read_text("utf-8")
)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    return with_components(tmp_path_factory.mktemp("pool") / "kubernetes", "inference-pool")


def test_the_custom_resources_are_valid(pool: list[Manifest]) -> None:
    found = [each for each in pool if each["kind"] in SCHEMAS]

    assert sorted(each["kind"] for each in found) == [
        "HTTPRoute",
        "InferenceObjective",
        "InferenceObjective",
        "InferencePool",
    ]
    for each in found:
        schema = SCHEMAS[each["kind"]]
        validator_for(schema)(schema).validate(each)


def test_the_pool_selects_the_pods_of_the_engine_at_their_port(pool: list[Manifest]) -> None:
    pods = one(pool, "StatefulSet", "strowger-engine")
    spec = one(pool, "InferencePool", "strowger-engine")["spec"]

    labels = pods["spec"]["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    (port,) = container(pods)["ports"]
    assert spec["targetPorts"] == [{"number": port["containerPort"]}]


def test_route_and_objectives_name_the_pool(pool: list[Manifest]) -> None:
    (rule,) = one(pool, "HTTPRoute", "strowger-engine")["spec"]["rules"]
    (target,) = rule["backendRefs"]

    assert target["name"] == "strowger-engine"
    for name in ("interactive", "batch"):
        objective = one(pool, "InferenceObjective", name)
        assert objective["spec"]["poolRef"] == {"name": "strowger-engine"}


def test_pickers_scrape_the_pods_without_a_key_and_see_one_model(pool: list[Manifest]) -> None:
    text = config_of(pool, "strowger-engine-config")
    config = read_config(text, source="config.yaml", env={"STROWGER_ENGINE_KEY": "k" * 20})

    assert config.auth.metrics == "open"
    (provider,) = config.providers
    assert provider.engine is not None
    assert len(provider.engine.models) == 1


def test_the_page_uses_the_names_of_the_manifests(pool: list[Manifest]) -> None:
    page = (ROOT / "docs" / "scale.md").read_text("utf-8")
    pods = one(pool, "InferencePool", "strowger-engine")["spec"]
    (parent,) = one(pool, "HTTPRoute", "strowger-engine")["spec"]["parentRefs"]

    for name in (pods["endpointPickerRef"]["name"], parent["name"], "strowger-pool: allowed"):
        assert f"`{name}`" in page
