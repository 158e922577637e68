"""An adapter's tests run with the extra dev-core alone: `make setup-core`."""

import os
import re
import subprocess
import sys
from pathlib import Path

from strowger_gateway.adapters.registry import BUILTIN

ROOT = Path(__file__).parents[2]
LOCKED = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>\S+)", re.MULTILINE)
WITHOUT_OTHERS = """
import sys
from importlib.abc import MetaPathFinder
from importlib.metadata import packages_distributions
import pytest

locked = set(sys.argv[1].split(",")) | {"strowger-gateway", "pip"}

class Others(MetaPathFinder):
    names = {
        package
        for package, distributions in packages_distributions().items()
        if not {one.lower().replace("_", "-") for one in distributions} & locked
    }
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"{name} is not in dev-core", name=name)

sys.meta_path.insert(0, Others())
sys.exit(pytest.main(sys.argv[2:]))
"""
PLUGINS = ("anyio.pytest_plugin", "_hypothesis_pytestplugin", "respx.plugin", "xdist.plugin")


RUNS_A_GATEWAY = re.compile(r"^ *from tests\.[\w.]*(?:serving|one_of_each) import", re.MULTILINE)


def locked(name: str) -> dict[str, str]:
    return dict(LOCKED.findall((ROOT / "requirements" / f"{name}.txt").read_text()))


def test_the_tests_of_an_adapter_need_only_the_packages_of_dev_core() -> None:
    words = [word for plugin in PLUGINS for word in ("-p", plugin)]

    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_OTHERS, ",".join(locked("core")), *words,
         "-q", "-p", "no:cacheprovider", "tests/adapters/openai"],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-1000:]


def test_dev_core_has_the_versions_of_dev() -> None:
    core, everything = locked("core"), locked("dev")

    assert len(core) > 30
    assert {name: version for name, version in core.items() if everything[name] != version} == {}


def test_the_tests_of_an_adapter_run_no_gateway() -> None:
    """A gateway's requests are judged by schemas that come from the vendors' clients."""
    folders = {adapter.partition(".")[0] for adapter in BUILTIN.values()}

    files = [file for one in folders for file in (ROOT / "tests" / "adapters" / one).rglob("*.py")]

    assert len(files) > 50
    assert [file for file in files if RUNS_A_GATEWAY.search(file.read_text("utf-8"))] == []
    assert RUNS_A_GATEWAY.search("from tests.adapters.repairs.one_of_each import Rig")
