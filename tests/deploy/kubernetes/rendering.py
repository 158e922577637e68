"""Render deploy/kubernetes with `kubectl kustomize`, and look into the result."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
TREE = ROOT / "deploy" / "kubernetes"
KUBECTL = shutil.which("kubectl")
COMPONENTS = ("autoscaling", "monitoring", "engine-nvidia", "engine-ascend", "inference-pool")
Manifest = dict[str, Any]


def render(folder: Path) -> list[Manifest]:
    """Raises AssertionError with the reason of kubectl."""
    done = subprocess.run(
        [KUBECTL or "kubectl", "kustomize", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def with_components(tree: Path, *components: str, more: str = "") -> list[Manifest]:
    """Render a copy of the gateway and the engine with these components."""
    shutil.copytree(TREE, tree)
    own = tree / "overlays" / "own"
    own.mkdir()
    lines = "\n".join(f"  - ../../components/{name}" for name in components)
    (own / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
        f"resources: [../../base, ../../engine]\ncomponents:\n{lines}\n{more}"
    )
    return render(own)


def one(manifests: list[Manifest], kind: str, name: str = "strowger") -> Manifest:
    (found,) = (
        each for each in manifests if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )
    return found


def config_of(manifests: list[Manifest], name: str = "strowger-config") -> str:
    """The text of the configuration in a generated ConfigMap."""
    (found,) = (
        each["data"]["config.yaml"]
        for each in manifests
        if each["kind"] == "ConfigMap" and each["metadata"]["name"].rpartition("-")[0] == name
    )
    return str(found)


def workloads(manifests: list[Manifest]) -> list[Manifest]:
    return [each for each in manifests if each["kind"] in ("Deployment", "StatefulSet")]


def container(workload: Manifest) -> Manifest:
    (only,) = workload["spec"]["template"]["spec"]["containers"]
    return only
