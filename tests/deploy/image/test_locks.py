"""The lists of packages in the images: hashed, of one version everywhere, and complete."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.image.dockerfile import ROOT
from tools.statements import statements

LISTS = ("gateway", "engine", "ascend", "build", "run", "dev")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OWN = {"schemas", "adapters", "local_engine", "gateway"}
IMAGE_EXTRAS = {
    "postgres",
    "redis",
    "jwt",
    "tokens",
    "bedrock",
    "vertex",
    "entra",
    "guardrails",
    "dns",
}
NOT_IN_GATEWAY = {
    "jsonschema": "for replays that check answers by a schema",
    "jsonschema-specifications": "comes with jsonschema",
    "referencing": "comes with jsonschema",
}
NOT_IN_ENGINE = NOT_IN_GATEWAY | {
    "torch": "not in the lock: requirements/excluded.txt",
    "torch-npu": "only in the Ascend image",
    "triton": "comes with builds of torch for CUDA",
}


def text_of(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")


def versions(name: str) -> dict[str, str]:
    """Distributions of a list and their versions."""
    return dict(re.findall(r"^([a-z0-9][\w.-]*)==(\S+)", text_of(name), re.MULTILINE))


@cache
def imported(package: str) -> frozenset[str]:
    """Top-level names that a package imports anywhere."""
    return frozenset(_imported(package))


def _imported(package: str) -> Iterator[str]:
    for file in (ROOT / package).rglob("*.py"):
        for node in statements(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Import(names=names):
                    yield from (alias.name.partition(".")[0] for alias in names)
                case ast.ImportFrom(module=str(module), level=0):
                    yield module.partition(".")[0]
                case _:
                    pass


_distributions = cache(packages_distributions)


def distributions(packages: set[str]) -> dict[str, set[str]]:
    """The distributions that have what these packages import, by the imported name."""
    known = _distributions()
    names = {name for package in packages for name in imported(package)}
    outside = names - {"strowger_gateway"} - sys.stdlib_module_names
    return {
        name: {str(canonicalize_name(one)) for one in known.get(name, [name])} for name in outside
    }


@pytest.mark.parametrize("name", LISTS)
def test_every_package_of_a_list_has_a_hash(name: str) -> None:
    entries = re.split(r"^(?=[a-z0-9])", text_of(name), flags=re.MULTILINE)[1:]

    assert entries
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


def test_lists_agree_about_versions() -> None:
    found: dict[str, set[str]] = {}
    for name in LISTS:
        for package, version in versions(name).items():
            found.setdefault(package, set()).add(version)

    assert {package: each for package, each in found.items() if len(each) > 1} == {}


def test_the_engine_has_what_the_gateway_has_and_ascend_what_the_engine_has() -> None:
    gateway, engine, ascend = (set(versions(name)) for name in ("gateway", "engine", "ascend"))

    assert gateway < engine < ascend
    assert ascend - engine == {"torch-npu"}


def test_the_gateways_image_has_no_engine() -> None:
    heavy = {"torch", "torch-npu", "transformers", "numpy", "safetensors", "llguidance", "pyarrow"}

    assert heavy.isdisjoint(versions("gateway"))
    assert not [name for name in versions("gateway") if name.startswith(("nvidia", "triton"))]


@pytest.mark.parametrize("name", ["gateway", "engine"])
def test_a_list_satisfies_the_project_and_the_extras_of_the_image(name: str) -> None:
    extras = IMAGE_EXTRAS | ({"local"} if name == "engine" else set[str]())
    optional = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *(one for extra in extras for one in optional[extra])]
    locked = versions(name)

    for one in map(Requirement, wanted):
        package = str(canonicalize_name(one.name))
        if package != "torch":
            assert one.specifier.contains(locked[package]), one


@pytest.mark.parametrize(
    ("name", "packages", "missing"),
    [
        ("gateway", {"schemas", "adapters", "gateway"}, NOT_IN_GATEWAY),
        ("engine", {"schemas", "adapters", "gateway", "local_engine"}, NOT_IN_ENGINE),
    ],
)
def test_every_import_is_of_a_package_in_the_list(
    name: str, packages: set[str], missing: dict[str, str]
) -> None:
    locked = set(versions(name)) | set(missing)

    found = distributions(packages)

    assert "litestar" in found
    assert {key: each for key, each in found.items() if not each & locked} == {}


def test_what_the_engine_lacks_is_still_imported() -> None:
    engine = {one for each in distributions(OWN).values() for one in each}

    assert set(NOT_IN_ENGINE) <= engine


def test_make_lock_writes_every_list_from_inputs_that_exist() -> None:
    recipe = re.search(
        r"^lock:.*?\n\n", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )

    assert recipe is not None
    for name in (*LISTS, "pip"):
        assert f"-o requirements/{name}.txt" in recipe[0]
    inputs = re.findall(r"requirements/\w+\.in", recipe[0])
    assert inputs
    assert all(Path(ROOT / one).is_file() for one in inputs)
