"""helm renders the chart to what deploy/kubernetes has, and to valid manifests."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import kubernetes_validate
import pytest
import yaml
from jsonschema.validators import validator_for

from strowger_gateway.gateway.config.load import read_config
from tests.deploy.kubernetes.rendering import ROOT, TREE, Manifest, container, one, workloads

CHART = ROOT / "deploy" / "helm"
HELM = shutil.which("helm") or shutil.which("helm", path=str(Path(sys.executable).parent))
VERSIONS = ("1.30", "1.37")
MONITOR: dict[str, Any] = json.loads(
    (Path(__file__).parent / "service_monitor.json").read_text("utf-8")
)
VALUES: dict[str, Any] = {
    "image": {"repository": "registry.test/strowger-gateway"},
    "engine": {"enabled": True, "image": {"repository": "registry.test/strowger-engine"}},
    "monitoring": {"enabled": True},
    "config": yaml.safe_load((TREE / "base" / "config.yaml").read_text("utf-8")),
}
ADDED = frozenset(
    {"labels", "annotations", "namespace", "image", "imagePullPolicy", "app.kubernetes.io/instance"}
)
_validate: Callable[..., object] = kubernetes_validate.validate  # pyright: ignore[reportUnknownMemberType]

pytestmark = pytest.mark.skipif(HELM is None, reason="helm is not installed")


def helm(*arguments: str, values: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(HELM), *arguments, "--values", "-"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
    )


def rendered(**changes: Any) -> list[Manifest]:
    """The manifests of a release called strowger, with these values in place of VALUES."""
    done = helm("template", "strowger", str(CHART), values={**VALUES, **changes})
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one is not None]


def refused(values: Mapping[str, Any]) -> str:
    done = helm("template", "strowger", str(CHART), values=values)
    assert done.returncode != 0
    return done.stderr


def plain(tree: object) -> object:
    """Without what helm and kustomize add or name differently: labels, checksums, images."""
    if isinstance(tree, list):
        return [plain(each) for each in cast("list[object]", tree)]
    if not isinstance(tree, dict):
        return tree
    whole = cast("dict[str, object]", tree)
    return {key: plain(value) for key, value in whole.items() if key not in ADDED}


def shipped(folder: str) -> list[Manifest]:
    return [
        yaml.safe_load(file.read_text("utf-8"))
        for file in sorted((TREE / folder).glob("*.yaml"))
        if file.name not in ("kustomization.yaml", "config.yaml", "adapter.yaml")
    ]


def test_the_chart_has_no_fault_for_helm() -> None:
    done = helm("lint", "--strict", str(CHART), values=VALUES)

    assert done.returncode == 0, done.stdout


def test_the_chart_renders_what_the_plain_manifests_have() -> None:
    ours = {(each["kind"], each["metadata"]["name"]): plain(each) for each in rendered()}

    for each in [*shipped("base"), *shipped("engine"), *shipped("components/monitoring")]:
        assert ours.pop((each["kind"], each["metadata"]["name"])) == plain(each)
    assert set(ours) == {("ConfigMap", "strowger-config"), ("ConfigMap", "strowger-engine-config")}


def test_autoscaling_renders_what_the_component_has() -> None:
    manifests = rendered(autoscaling={"enabled": True})
    (scaler,) = shipped("components/autoscaling")

    assert plain(one(manifests, "HorizontalPodAutoscaler")) == plain(scaler)
    assert "replicas" not in one(manifests, "Deployment")["spec"]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_of_the_chart_is_valid(version: str) -> None:
    kinds: set[str] = set()
    for manifest in rendered(autoscaling={"enabled": True}):
        kinds.add(manifest["kind"])
        if manifest["kind"] == "ServiceMonitor":
            validator_for(MONITOR)(MONITOR).validate(manifest)
        else:
            _validate(manifest, version, strict=True)

    assert len(kinds) == 9


@pytest.mark.parametrize("name", ["strowger-config", "strowger-engine-config"])
def test_the_gateway_accepts_the_rendered_configurations(name: str) -> None:
    text = one(rendered(), "ConfigMap", name)["data"]["config.yaml"]
    names = ("STROWGER_ADMIN_KEY", "STROWGER_ENGINE_KEY", "OPENAI_API_KEY")
    env = {name: f"a-secret-of-{name.lower()}" for name in names}
    env["STROWGER_METRICS_KEY"] = "another-secret-of-the-metrics"
    env["STROWGER_STORE_URL"] = "postgresql://strowger:secret@postgres/strowger"
    env["STROWGER_REDIS_URL"] = "redis://:secret@redis:6379/0"

    assert read_config(text, source="config.yaml", env=env).models


def test_a_changed_configuration_is_a_rolling_update_and_its_drain_is_waited_for() -> None:
    config = {**VALUES["config"], "server": {"host": "0.0.0.0", "drain_timeout_s": 300.5}}
    before, after = (one(rendered(**more), "Deployment") for more in ({}, {"config": config}))
    templates = [each["spec"]["template"] for each in (before, after)]

    sums = [each["metadata"]["annotations"]["checksum/config"] for each in templates]
    assert sums[0] != sums[1]
    assert templates[0]["spec"]["terminationGracePeriodSeconds"] == 5 + 5 + 60 + 10
    assert templates[1]["spec"]["terminationGracePeriodSeconds"] == 5 + 5 + 301 + 10


@pytest.mark.parametrize(
    ("device", "resource"), [("nvidia", "nvidia.com/gpu"), ("ascend", "huawei.com/Ascend910")]
)
def test_an_engine_with_a_device_asks_for_one(device: str, resource: str) -> None:
    engine = {**VALUES["engine"], "device": device}
    pods = one(rendered(engine=engine), "StatefulSet", "strowger-engine")["spec"]["template"]

    (only,) = pods["spec"]["containers"]
    assert only["resources"]["limits"] == {"memory": "8Gi", resource: "1"}
    assert (pods["spec"]["securityContext"].get("supplementalGroups") == [1000]) == (
        device == "ascend"
    )


def test_the_port_of_the_configuration_is_the_containers() -> None:
    config = {**VALUES["config"], "server": {"host": "0.0.0.0", "port": 9000}}

    ports = [container(each)["ports"] for each in workloads(rendered(config=config))]

    assert sorted(port["containerPort"] for each in ports for port in each) == [8080, 9000]


def test_two_releases_in_a_namespace_share_no_pods() -> None:
    done = helm("template", "second", str(CHART), values=VALUES)
    selectors = [
        each["spec"]["selector"]["matchLabels"]
        for each in yaml.safe_load_all(done.stdout)
        if each and each["kind"] in ("Deployment", "StatefulSet")
    ]

    assert {each["app.kubernetes.io/instance"] for each in selectors} == {"second"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image": {}}, "image.repository: name the image in your registry"),
        ({"engine": {"enabled": True}}, "engine.image.repository: name the image"),
        ({"replica": 3}, "replica"),
        ({"engine": {"device": "tpu"}}, "device"),
        ({"config": {"providers": {}}}, "config.providers"),
    ],
)
def test_wrong_values_are_errors_that_name_them(changes: dict[str, Any], said: str) -> None:
    assert said in refused({**VALUES, **changes}).replace("/", ".").replace(": got", " got")
