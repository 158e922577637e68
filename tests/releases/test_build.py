"""Wheel and sdist are the same bytes wherever they are built, and contain what they should."""

import io
import subprocess
import tarfile
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest

from tests.releases.conftest import EPOCH
from tools.release_build import DifferentBuilds, build_twice, tracked

ROOT = Path(__file__).parents[2]
NAME = "strowger_gateway/"
PACKAGES = ("adapters/", "gateway/", "local_engine/", "schemas/")

SMALL = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "restless"
dynamic = ["version"]
[tool.hatch.version]
source = "code"
path = "restless.py"
"""
DEPENDS_ON_ITS_FOLDER = 'import os\n__version__ = "1." + str(len(os.getcwd()))\n'


def in_the_package() -> set[str]:
    return {f"{NAME}{name}" for name in tracked(ROOT) if name.startswith(PACKAGES)}


@pytest.fixture
def wheel(wheel_file: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(wheel_file)


@pytest.mark.nightly
def test_two_builds_and_one_from_the_sdist_are_equal(tmp_path: Path) -> None:
    assert len(build_twice(ROOT, tmp_path, EPOCH)) == 2


def test_a_wheel_and_an_sdist_are_built(built: dict[str, bytes]) -> None:
    kinds = sorted(name.rpartition("strowger_gateway-")[2].lstrip("0123456789.") for name in built)

    assert kinds == ["-py3-none-any.whl", "tar.gz"]


def project_with(code: str, folder: Path) -> Path:
    """A project of one module."""
    project = folder / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(SMALL)
    (project / "restless.py").write_text(code)
    for words in (("init", "-q"), ("add", ".")):
        subprocess.run(("git", *words), cwd=project, check=True)
    return project


def test_equal_builds_are_returned(tmp_path: Path) -> None:
    built = build_twice(project_with('__version__ = "1.0"\n', tmp_path), tmp_path, EPOCH)

    assert set(built) == {"restless-1.0-py2.py3-none-any.whl", "restless-1.0.tar.gz"}


def test_a_build_that_depends_on_its_folder_is_refused(tmp_path: Path) -> None:
    project = project_with(DEPENDS_ON_ITS_FOLDER, tmp_path)

    with pytest.raises(DifferentBuilds, match=r"restless-1\.\d+"):
        build_twice(project, tmp_path, EPOCH)


def test_the_wheel_contains_the_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}

    assert names == {f"{NAME}__init__.py", f"{NAME}py.typed", *in_the_package()}
    assert not any("tiny_chat" in name or "test_" in name for name in names), "training, tests"


def test_the_wheel_names_its_licence_its_command_and_its_python(wheel: zipfile.ZipFile) -> None:
    (folder,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    metadata = BytesParser().parsebytes(wheel.read(f"{folder}/METADATA"))

    assert f"{folder}/licenses/LICENSE" in wheel.namelist()
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert (
        "strowger = strowger_gateway.gateway.cli:main"
        in wheel.read(f"{folder}/entry_points.txt").decode()
    )


def test_every_file_has_the_time_of_the_commit(built: dict[str, bytes]) -> None:
    (content,) = (content for name, content in built.items() if name.endswith(".tar.gz"))

    with tarfile.open(fileobj=io.BytesIO(content)) as sdist:
        times = {member.mtime for member in sdist.getmembers()}

    assert times == {EPOCH}


def test_the_sdist_contains_what_its_own_tests_need(built: dict[str, bytes]) -> None:
    (content,) = (content for name, content in built.items() if name.endswith(".tar.gz"))

    with tarfile.open(fileobj=io.BytesIO(content)) as sdist:
        names = {member.name.partition("/")[2] for member in sdist.getmembers()}

    links = {name for name in tracked(ROOT) if (ROOT / name).is_symlink()}
    assert {*tracked(ROOT), *in_the_package()} - links - names == set()
