"""The wheel with dependencies from the index, on every Python here; wheels for every platform.

`make nightly-wheel`: needs a package index.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway.commanded import commanded
from tests.releases.installed import install, public_authorities
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
PYTHONS = os.environ.get("STROWGER_PYTHONS", "python3.11").split()
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
GLIBC = 31
"""The oldest glibc, 2.31, that all wheels of the lock run on: Debian 11, Ubuntu 20.04."""
CONFIG = """
providers: [{{name: a, adapter: openai, base_url: "{url}", api_key: k}}]
models: [{{name: chat, backends: [{{provider: a, model: x}}]}}]
"""


def runs(python: str) -> bool:
    """True for an interpreter; false if there is none, or only a shim without its version."""
    path = shutil.which(python)
    found = path and subprocess.run((path, "--version"), capture_output=True, check=False)
    return bool(found) and found.returncode == 0


def environment_of(python: str, folder: Path) -> Path:
    """Create an empty environment of an interpreter; return the environment's interpreter."""
    subprocess.run((python, "-m", "venv", "--without-pip", str(folder)), check=True)
    return folder / "bin" / "python"


@pytest.mark.anyio
@pytest.mark.parametrize("python", PYTHONS)
async def test_it_serves_with_the_newest_dependencies(
    python: str, wheel_file: Path, tmp_path: Path
) -> None:
    if not runs(python):
        pytest.skip(f"{python} is not installed")
    installed = await asyncio.to_thread(environment_of, python, tmp_path / "environment")
    await asyncio.to_thread(install, installed, str(wheel_file))
    body = {"model": "chat", "messages": [{"role": "user", "content": "Hello!"}]}

    async with (
        provider() as remote,
        commanded(
            tmp_path / "config.yaml",
            CONFIG.format(url=remote.base_url),
            env={"PYTHONPATH": ""},
            command=(str(installed.with_name("strowger")),),
            folder=tmp_path,
        ) as gateway,
        gateway.client() as client,
    ):
        answer = await client.post("/v1/chat/completions", json=body)
        pages = {path: (await client.get(path)).status_code for path in ("/docs", "/metrics")}

    assert answer.json()["choices"][0]["message"]["content"] == "hello", answer.text
    assert set(pages.values()) == {200}, pages


def resolved(machine: str, python: str, *requirements: str) -> subprocess.CompletedProcess[str]:
    """Choose wheels for a platform that is not this one, as pip there would."""
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(17, GLIBC + 1)]
    platforms = [f"--platform={tag}" for tag in (*tags, f"manylinux2014_{machine}")]
    return subprocess.run(
        (
            *(sys.executable, "-m", "pip", "--quiet", "install", "--dry-run", "--no-deps"),
            *("--ignore-installed", "--target", "unused", "--only-binary=:all:"),
            *("--implementation", "cp", "--python-version", python, *platforms, *requirements),
        ),
        cwd=ROOT,
        env=public_authorities(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("machine", ["aarch64", "x86_64"])
@pytest.mark.parametrize("python", SUPPORTED)
def test_every_locked_dependency_has_a_wheel(python: str, machine: str) -> None:
    (torch,) = (
        line
        for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
        if line.startswith("torch==")
    )

    for words in (("-r", "requirements/run.txt"), (torch,)):
        found = resolved(machine, python, *words)
        assert found.returncode == 0, found.stderr


def test_a_platform_without_wheels_is_noticed() -> None:
    assert resolved("alpha", "3.13", "-r", "requirements/run.txt").returncode != 0


def test_the_tools_of_a_release_find_nothing_to_complain_about() -> None:
    python = f"PYTHON={sys.base_prefix}/bin/python3"

    words = ("make", "sbom", "lint-workflows", python)
    subprocess.run(words, cwd=ROOT, env=public_authorities(), check=True)

    assert (ROOT / "dist" / "strowger_gateway-sbom.cdx.json").is_file()
