"""The engines' pods and the gateway's fit: names, ports, certificates, and the time to drain."""

import shutil
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest

from strowger_gateway.gateway.cli.engine_server.command import engine as engine_command
from strowger_gateway.gateway.config.engine_file import load_engine
from strowger_gateway.gateway.config.load import read_config
from tests.deploy.kubernetes.rendering import (
    KUBECTL,
    TREE,
    Manifest,
    config_of,
    container,
    one,
    render,
    workloads,
)
from tests.deploy.kubernetes.test_manifests import VARIABLE, VERSIONS

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

DEVICES = {"engine-nvidia": "nvidia.com/gpu", "engine-ascend": "huawei.com/Ascend910"}


@pytest.fixture(scope="module")
def pool() -> list[Manifest]:
    return render(TREE / "overlays" / "engine-pool")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_valid(version: str, pool: list[Manifest]) -> None:
    for manifest in pool:
        kubernetes_validate.validate(manifest, version, strict=True)  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.parametrize(("component", "resource"), DEVICES.items())
def test_a_component_gives_each_engine_a_device(
    component: str, resource: str, tmp_path: Path
) -> None:
    tree = tmp_path / "kubernetes"
    shutil.copytree(TREE, tree)
    file = tree / "overlays" / "engine-pool" / "kustomization.yaml"
    file.write_text(file.read_text() + f"components: [../../components/{component}]\n")

    stateful = one(render(file.parent), "StatefulSet", "strowger-engine")

    assert container(stateful)["resources"]["limits"][resource] == "1"
    assert "--listen=0.0.0.0:9000" in container(stateful)["args"]


def options(pool: list[Manifest]) -> dict[str, Any]:
    """The options of `strowger engine` in the pod, as the command reads them."""
    name, *words = container(one(pool, "StatefulSet", "strowger-engine"))["args"]
    assert name == "engine"
    with click.Context(engine_command) as context:
        engine_command.parse_args(context, list(words))
        return context.params


def test_the_pod_runs_a_command_that_is_accepted(pool: list[Manifest], tmp_path: Path) -> None:
    given = options(pool)
    file = tmp_path / "engine.yaml"
    (text,) = (
        each["data"]["engine.yaml"]
        for each in pool
        if each["kind"] == "ConfigMap" and "engine.yaml" in each["data"]
    )
    file.write_text(text)

    assert str(given["file"]) == "/etc/strowger/engine.yaml"
    assert [model.name for model in load_engine(file, {}).models] == ["tiny-chat"]


def test_kubernetes_waits_longer_than_the_engine_drains(pool: list[Manifest]) -> None:
    stateful = one(pool, "StatefulSet", "strowger-engine")
    sleep = container(stateful)["lifecycle"]["preStop"]["sleep"]["seconds"]
    grace = stateful["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]

    assert grace >= sleep + options(pool)["drain_s"] + 10


def test_the_gateway_finds_the_engines_by_the_services_port(
    pool: list[Manifest], tmp_path: Path
) -> None:
    text = config_of(pool)
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).touch()
    text = text.replace("/etc/strowger-tls", str(tmp_path))
    values = {found: f"value-of-{found.lower()}" for found in VARIABLE.findall(text)}
    values["STROWGER_STORE_URL"] = "postgresql://strowger:secret@postgres/strowger"
    values["STROWGER_REDIS_URL"] = "redis://:secret-of-redis@redis:6379/0"
    (provider,) = read_config(text, source="config.yaml", env=values).providers
    assert provider.engines is not None
    assert provider.engines.discover is not None

    service = one(pool, "Service", "strowger-engine")
    (port,) = service["spec"]["ports"]
    namespace = service["metadata"]["namespace"]
    found = f"_{port['name']}._tcp.strowger-engine.{namespace}.svc.cluster.local"
    assert provider.engines.discover.dns == found
    assert service["spec"]["clusterIP"] == "None"
    assert (
        port["port"]
        == container(one(pool, "StatefulSet", "strowger-engine"))["ports"][0]["containerPort"]
    )


def test_both_sides_mount_their_certificates(pool: list[Manifest]) -> None:
    mounted = {
        workload["metadata"]["name"]: {
            volume["secret"]["secretName"]
            for volume in workload["spec"]["template"]["spec"]["volumes"]
            if "secret" in volume
        }
        for workload in workloads(pool)
    }

    assert mounted == {
        "strowger": {"strowger-gateway-tls"},
        "strowger-engine": {"strowger-engine-tls"},
    }
    paths = [options(pool)[name] for name in ("tls_cert", "tls_key", "tls_ca")]
    assert paths == [f"/etc/strowger-tls/{name}" for name in ("tls.crt", "tls.key", "ca.crt")]


def test_the_network_lets_only_the_gateway_reach_the_engines(pool: list[Manifest]) -> None:
    (rule,) = one(pool, "NetworkPolicy", "strowger-engine")["spec"]["ingress"]
    gateways = one(pool, "Deployment")["spec"]["template"]["metadata"]["labels"]
    (peer,) = rule["from"]
    outgoing = one(pool, "NetworkPolicy")["spec"]["egress"][-1]

    assert peer["podSelector"]["matchLabels"].items() <= gateways.items()
    assert [each["port"] for each in rule["ports"]] == ["engine"]
    assert [each["port"] for each in outgoing["ports"]] == ["engine"]
