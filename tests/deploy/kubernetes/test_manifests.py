"""The Kubernetes manifests are valid for every kind and version, and their parts fit."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from jsonschema.validators import validator_for
from kubernetes_validate.utils import all_versions

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.config import Config
from tests.deploy.kubernetes.rendering import (
    COMPONENTS,
    KUBECTL,
    ROOT,
    TREE,
    Manifest,
    config_of,
    container,
    one,
    render,
    with_components,
    workloads,
)

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

OLDEST = (1, 30)
"""The first version with `preStop.sleep` on by default: docs/kubernetes.md."""
_KNOWN = [one for one in all_versions() if tuple(map(int, one.split(".")[:2])) >= OLDEST]
VERSIONS = (_KNOWN[0], _KNOWN[-1])
MONITOR: dict[str, Any] = json.loads(
    (Path(__file__).parent / "service_monitor.json").read_text("utf-8")
)
PAGE = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")
_validate: Callable[..., object] = kubernetes_validate.validate  # pyright: ignore[reportUnknownMemberType]
SECRETS = set(re.findall(r"--from-literal=(\w+)=", PAGE))
VARIABLE = re.compile(r"\$\{(\w+)\}")


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """With every component that can be combined."""
    tree = tmp_path_factory.mktemp("everything") / "kubernetes"
    return with_components(tree, "autoscaling", "monitoring", "engine-nvidia")


@pytest.fixture(scope="module")
def example() -> list[Manifest]:
    return render(TREE / "overlays" / "example")


@pytest.fixture(scope="module")
def engine() -> list[Manifest]:
    return render(TREE / "overlays" / "engine")


def loaded(manifests: list[Manifest], name: str = "strowger-config") -> Config:
    text = config_of(manifests, name)
    values = {found: f"value-of-{found.lower()}" for found in VARIABLE.findall(text)}
    values["STROWGER_STORE_URL"] = "postgresql://strowger:secret-of-the-store@postgres/strowger"
    values["STROWGER_REDIS_URL"] = "redis://:secret-of-redis@redis:6379/0"
    return read_config(text, source="config.yaml", env=values)


def checked(manifest: Manifest, version: str) -> None:
    """Raises ValidationError, also for unknown fields."""
    _validate(manifest, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_valid(
    version: str,
    everything: list[Manifest],
    example: list[Manifest],
    engine: list[Manifest],
) -> None:
    kinds: set[str] = set()
    for manifest in [*everything, *example, *engine]:
        kinds.add(manifest["kind"])
        if manifest["kind"] == "ServiceMonitor":
            validator_for(MONITOR)(MONITOR).validate(manifest)
        else:
            checked(manifest, version)

    assert kinds == {
        *("ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Namespace", "NetworkPolicy"),
        *("PodDisruptionBudget", "Service", "ServiceAccount", "ServiceMonitor", "StatefulSet"),
    }


def test_a_misspelt_field_is_not_valid(example: list[Manifest]) -> None:
    deployment = json.loads(json.dumps(one(example, "Deployment")))
    deployment["spec"]["template"]["spec"]["terminationGracePeriod"] = 1

    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGracePeriod"):
        checked(deployment, VERSIONS[-1])


def test_every_component_is_rendered_by_a_test() -> None:
    found = {folder.name for folder in (TREE / "components").iterdir()}

    assert found == set(COMPONENTS)


def test_selectors_select_the_pods_of_one_workload(everything: list[Manifest]) -> None:
    pods = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in workloads(everything)
    }

    def selected(labels: dict[str, str]) -> set[str]:
        return {name for name, own in pods.items() if labels.items() <= own.items()}

    for each in everything:
        spec, name = each.get("spec", {}), each["metadata"]["name"]
        match each["kind"]:
            case "Service":
                assert selected(spec["selector"]) == {name}
            case "Deployment" | "StatefulSet" | "PodDisruptionBudget" | "ServiceMonitor":
                assert selected(spec["selector"]["matchLabels"]) == {name}
            case "NetworkPolicy":
                assert selected(spec["podSelector"]["matchLabels"]) == {name}
            case _:
                pass


def test_a_pod_is_restricted(everything: list[Manifest]) -> None:
    for workload in workloads(everything):
        pod, only = workload["spec"]["template"]["spec"], container(workload)

        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 65532
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert only["securityContext"] == {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert only["resources"]["limits"]["memory"]
        writable = {each["mountPath"] for each in only["volumeMounts"] if not each.get("readOnly")}
        assert writable == {"/var/lib/strowger", "/tmp"}


def test_a_mounted_configuration_is_the_generated_one(everything: list[Manifest]) -> None:
    names = {each["metadata"]["name"] for each in everything if each["kind"] == "ConfigMap"}
    mounted = {
        volume["configMap"]["name"]
        for workload in workloads(everything)
        for volume in workload["spec"]["template"]["spec"]["volumes"]
        if "configMap" in volume
    }

    assert mounted == names
    assert all(re.search(r"-[a-z0-9]{10}$", name) for name in names)


def test_kubernetes_waits_longer_than_a_drain(everything: list[Manifest]) -> None:
    configs = {
        "strowger": loaded(everything),
        "strowger-engine": loaded(everything, "strowger-engine-config"),
    }
    for workload in workloads(everything):
        server = configs[workload["metadata"]["name"]].server
        sleep = container(workload)["lifecycle"]["preStop"]["sleep"]["seconds"]
        grace = workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]

        assert grace >= sleep + server.drain_delay_s + server.drain_timeout_s + 10


def test_a_drain_is_seen_before_requests_are_refused(everything: list[Manifest]) -> None:
    for workload in workloads(everything):
        probe = container(workload)["readinessProbe"]
        seen = probe["periodSeconds"] * (probe["failureThreshold"] + 1)  # it answers at once

        assert seen < loaded(everything).server.drain_delay_s


def test_a_busy_moment_takes_no_pod_out_of_service(everything: list[Manifest]) -> None:
    for workload in workloads(everything):
        probe = container(workload)["readinessProbe"]

        assert probe["failureThreshold"] >= 3
        assert probe["timeoutSeconds"] >= 3


def test_probes_ask_what_the_gateway_serves(everything: list[Manifest]) -> None:
    for workload in workloads(everything):
        only = container(workload)
        paths = {
            kind: only[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")
        }

        assert {kind: get["path"] for kind, get in paths.items()} == {
            "startup": "/readyz",
            "readiness": "/readyz",
            "liveness": "/healthz",
        }
        assert {get["port"] for get in paths.values()} == {only["ports"][0]["name"]}
        assert only["ports"][0]["containerPort"] == loaded(everything).server.port


@pytest.mark.parametrize("overlay", ["example", "engine"])
def test_the_gateway_accepts_the_configuration_with_the_secret(
    overlay: str, request: pytest.FixtureRequest
) -> None:
    manifests: list[Manifest] = request.getfixturevalue(overlay)

    config = loaded(manifests)

    assert config.server.host == "0.0.0.0"
    assert config.store.spool == "/var/lib/strowger/spool"
    assert set(VARIABLE.findall(config_of(manifests))) <= SECRETS


def test_the_engines_configuration_uses_the_variables_of_its_pod(engine: list[Manifest]) -> None:
    text = config_of(engine, "strowger-engine-config")
    only = container(one(engine, "StatefulSet", "strowger-engine"))

    assert loaded(engine, "strowger-engine-config").providers[0].adapter == "local"
    assert set(VARIABLE.findall(text)) == {each["name"] for each in only["env"]} <= SECRETS
    assert {each["valueFrom"]["secretKeyRef"]["key"] for each in only["env"]} == {
        each["name"] for each in only["env"]
    }


def test_the_gateways_provider_is_the_engines_pod(engine: list[Manifest]) -> None:
    (provider,) = loaded(engine).providers
    service = one(engine, "Service", "strowger-engine")
    stateful = one(engine, "StatefulSet", "strowger-engine")

    assert provider.base_url == "http://strowger-engine-0.strowger-engine:8080/v1"
    assert service["spec"]["clusterIP"] == "None"
    assert stateful["spec"]["serviceName"] == service["metadata"]["name"]
    (key,) = loaded(engine, "strowger-engine-config").auth.keys
    assert key.key.reveal() == provider.api_key.reveal()


def test_the_autoscaler_reads_a_metric_of_the_gateway(everything: list[Manifest]) -> None:
    scaler = one(everything, "HorizontalPodAutoscaler")
    (metric,) = scaler["spec"]["metrics"]
    adapter = (TREE / "components" / "autoscaling" / "adapter.yaml").read_text("utf-8")

    assert metric["pods"]["metric"]["name"] in adapter
    assert f"`{metric['pods']['metric']['name']}`" in (ROOT / "docs" / "operations.md").read_text()
    assert int(metric["pods"]["target"]["averageValue"]) < loaded(everything).server.max_in_flight
    assert "replicas" not in one(everything, "Deployment")["spec"]


def test_the_scraper_has_the_key_of_the_metrics(everything: list[Manifest]) -> None:
    (endpoint,) = one(everything, "ServiceMonitor")["spec"]["endpoints"]
    credentials = endpoint["authorization"]["credentials"]

    assert credentials["name"] == "strowger"
    assert f"metrics_key: ${{{credentials['key']}}}" in config_of(everything)
    assert endpoint["port"] == one(everything, "Service")["spec"]["ports"][0]["name"]


def test_a_network_policy_keeps_metadata_services_out_of_reach(everything: list[Manifest]) -> None:
    policies = [each for each in everything if each["kind"] == "NetworkPolicy"]

    assert len(policies) == 2
    for policy in policies:
        blocks = [
            to["ipBlock"]
            for rule in policy["spec"]["egress"]
            for to in rule["to"]
            if "ipBlock" in to
        ]
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        assert {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]} in blocks
        assert all("except" in block for block in blocks if block["cidr"] in ("0.0.0.0/0", "::/0"))


@pytest.mark.parametrize(
    ("component", "resource"),
    [("engine-nvidia", "nvidia.com/gpu"), ("engine-ascend", "huawei.com/Ascend910")],
)
def test_a_device_is_requested_besides_memory(
    component: str, resource: str, tmp_path: Path
) -> None:
    found = with_components(tmp_path / "kubernetes", component)

    limits = container(one(found, "StatefulSet", "strowger-engine"))["resources"]["limits"]
    assert limits == {"memory": "8Gi", resource: "1"}
    checked(one(found, "StatefulSet", "strowger-engine"), VERSIONS[-1])


def test_an_overlay_replaces_both_configurations(tmp_path: Path) -> None:
    more = "configMapGenerator:\n" + "".join(
        f'  - {{name: {name}, behavior: replace, literals: ["config.yaml=own of {name}"]}}\n'
        for name in ("strowger-config", "strowger-engine-config")
    )

    found = with_components(tmp_path / "kubernetes", "engine-nvidia", "monitoring", more=more)

    assert config_of(found) == "own of strowger-config"
    assert config_of(found, "strowger-engine-config") == "own of strowger-engine-config"


def test_a_changed_configuration_is_a_rolling_update(tmp_path: Path) -> None:
    def mounted(name: str, text: str) -> str:
        more = (
            "configMapGenerator:\n"
            f'  - {{name: strowger-config, behavior: replace, literals: ["config.yaml={text}"]}}\n'
        )
        deployment = one(with_components(tmp_path / name, "monitoring", more=more), "Deployment")
        volumes = deployment["spec"]["template"]["spec"]["volumes"]
        return str(volumes[0]["configMap"]["name"])

    assert mounted("first", "one") != mounted("second", "two")
