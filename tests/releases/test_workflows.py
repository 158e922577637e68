"""The release workflow: who may do what, and the commands that it runs."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest
import yaml

from tests.site.two_languages import two_languages

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
USES = re.compile(r"uses: (?P<action>\S+)(?: # (?P<version>\S+))?")
TARGET = re.compile(r"^(?P<name>[a-z-]+):", re.MULTILINE)
CHANGES = """# Changelog

## Unreleased

- Later.

## 1.2.3 - 2026-12-01

### Added

- Now.

## 1.2.2 - 2026-11-01

- Before.
"""

Job = Mapping[str, object]


def jobs(workflow: str = "release.yml") -> Mapping[str, Job]:
    text = (ROOT / ".github/workflows" / workflow).read_text("utf-8")
    return cast("Mapping[str, Job]", yaml.safe_load(text)["jobs"])


def steps(job: str) -> list[Mapping[str, object]]:
    return cast("list[Mapping[str, object]]", jobs()[job].get("steps", []))


def commands() -> Iterator[str]:
    for job in jobs():
        yield from (str(step["run"]) for step in steps(job) if "run" in step)


def command(words: str) -> str:
    (found,) = (one for one in commands() if words in one)
    return found


def shell(text: str, folder: Path, **env: str) -> int:
    """Run a step as GitHub does; return its exit status."""
    words = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text)
    return subprocess.run(
        words, cwd=folder, env={"PATH": "/usr/bin:/bin", **env}, check=False
    ).returncode


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_an_action_is_named_by_its_commit_and_its_version(workflow: Path) -> None:
    uses = [found.groupdict() for found in USES.finditer(workflow.read_text("utf-8"))]
    foreign = [one for one in uses if not str(one["action"]).startswith("./")]

    assert foreign
    assert [
        one["action"]
        for one in foreign
        if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", str(one["action"])) or not one["version"]
    ] == []


def test_a_job_that_runs_the_projects_code_cannot_publish_or_sign() -> None:
    strong = {
        name
        for name, job in jobs().items()
        if "write" in cast("Mapping[str, str]", job["permissions"]).values()
    }
    running = {
        name
        for name in jobs()
        for step in steps(name)
        if re.search(r"make |python|pip", str(step.get("run", "")))
    }

    assert strong == {"compare", "publish", "announce"}
    assert running == {"build"}


def test_an_image_is_signed_by_its_digest_in_a_job_that_does_not_build_it(tmp_path: Path) -> None:
    images = jobs("images.yml")
    may_sign = {
        name
        for name, job in images.items()
        if "id-token" in cast("Mapping[str, str]", job["permissions"])
    }
    last = cast("list[Mapping[str, str]]", images["join"]["steps"])[-1]["run"]
    for program, prints in (("docker", "sha256:d"), ("cosign", "")):
        file = tmp_path / program
        file.write_text(f'#!/bin/sh\necho {program} "$@" >>{tmp_path}/calls\necho {prints}\n')
        file.chmod(0o755)

    status = shell(
        last,
        tmp_path,
        PATH=f"{tmp_path}:/usr/bin:/bin",
        REGISTRY="ghcr.io",
        GITHUB_REPOSITORY="Some/Where",
        GITHUB_REF_NAME="v1.2.3",
        TARGET="engine",
    )

    assert (status, may_sign) == (0, {"join"})
    assert (tmp_path / "calls").read_text().splitlines()[-1] == (
        "cosign sign --yes --recursive ghcr.io/some/where-engine@sha256:d"
    )


def test_nothing_is_published_before_the_tests_and_the_comparison() -> None:
    needs = {name: set(words(job.get("needs", []))) for name, job in jobs().items()}

    assert needs["compare"] == {"test", "build"}
    assert needs["publish"] == {"compare"}
    assert needs["announce"] == {"publish"}


def words(value: object) -> list[str]:
    return [value] if isinstance(value, str) else cast("list[str]", value)


def test_the_targets_that_it_makes_exist() -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text("utf-8")))
    made = {target for one in commands() if "make " in one for target in one.split()[1:]}

    assert made == {"dist", "sbom"}
    assert made <= targets


@pytest.mark.parametrize(("tag", "status"), [("v1.2.3", 0), ("v1.2.4", 1)])
def test_a_tag_that_is_not_the_projects_version_is_refused(
    tag: str, status: int, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1.2.3"\n')

    assert shell(command("pyproject.toml"), tmp_path, GITHUB_REF_NAME=tag) == status


def test_the_suite_runs_on_both_architectures_that_are_supported() -> None:
    strategy = cast("Mapping[str, Mapping[str, object]]", jobs("ci.yml")["test"]["strategy"])
    included = cast("list[Mapping[str, str]]", strategy["matrix"]["include"])

    assert strategy["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert strategy["matrix"]["runner"] == ["ubuntu-latest"]
    assert included == [{"python": "3.11", "runner": "ubuntu-24.04-arm"}]
    assert jobs("ci.yml")["test"]["runs-on"] == "${{ matrix.runner }}"


@pytest.mark.parametrize("older", [False, True])
def test_a_translation_that_is_older_than_its_english_page_is_not_released(
    older: bool, tmp_path: Path
) -> None:
    project = two_languages(tmp_path)
    if older:
        (project / "docs" / "agents.md").write_text("# Agents\n\nA change.\n")

    python = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    assert bool(shell(command("tools.twins"), project, PATH=python)) == older


def test_the_notes_are_the_section_of_the_version(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)

    assert shell(command("CHANGELOG.md"), tmp_path, GITHUB_REF_NAME="v1.2.3") == 0
    notes = (tmp_path / "notes.md").read_text()

    assert "- Now." in notes
    assert not {"- Later.", "- Before."} & set(notes.splitlines())


def test_a_version_without_notes_is_not_released(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)

    assert shell(command("CHANGELOG.md"), tmp_path, GITHUB_REF_NAME="v9.9.9") != 0


@pytest.mark.parametrize("changed", [False, True])
def test_builds_that_differ_are_not_released(changed: bool, tmp_path: Path) -> None:
    for machine in ("one", "two"):
        folder = tmp_path / f"dist-{machine}"
        folder.mkdir()
        (folder / "x.whl").write_text(machine if changed else "same")
        subprocess.run("sha256sum x.whl > SHA256SUMS", shell=True, cwd=folder, check=True)

    assert bool(shell(command("diff --recursive"), tmp_path)) == changed
