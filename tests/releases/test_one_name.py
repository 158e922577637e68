"""The distribution has one import name, and works next to others that use our words."""

import asyncio
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.gateway.commanded import commanded
from tests.releases.installed import borrow_packages, empty_environment, install
from tests.stand_ins.provider import provider

ROOT = Path(__file__).parents[2]
NAME = "strowger_gateway"
PACKAGES = ("gateway", "adapters", "local_engine", "schemas")
OTHERS = ("adapters", "strowger")
"""Distributions on the package index that others own."""

CONFIG = """
providers: [{{name: a, adapter: openai, base_url: "{url}", api_key: k}}]
models: [{{name: chat, backends: [{{provider: a, model: x}}]}}]
"""


def run(program: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-c", program), cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_wheel_installs_one_top_level_package(wheel_file: Path) -> None:
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel_file).namelist()}

    assert {name for name in names if not name.endswith(".dist-info")} == {NAME}


def test_a_test_process_has_imported_nothing_under_another_name() -> None:
    assert {name.split(".")[0] for name in sys.modules}.isdisjoint(PACKAGES)


@pytest.mark.parametrize(
    "program", ["gateway.cli.main", "gateway.http.app", "gateway.cli.serve", "adapters.registry"]
)
def test_a_program_in_the_checkout_imports_nothing_under_another_name(program: str) -> None:
    found = run(
        f"import sys, {NAME}.{program}; "
        f"print({{one.split('.')[0] for one in sys.modules}} & set({PACKAGES}))"
    )

    assert (found.stdout.strip(), found.stderr) == ("set()", "")


@pytest.mark.parametrize("package", PACKAGES)
def test_a_folder_of_the_checkout_is_not_a_package_of_its_own(package: str) -> None:
    found = run(f"import {package}")

    assert f"ImportError: the name of this package is {NAME}.{package}" in found.stderr


def installed_next_to_others(wheel_file: Path, folder: Path) -> Path:
    """Return the `strowger` of our wheel in an environment with the distributions of others.

    Skips the test if there is no package index.
    """
    python = empty_environment(folder)
    try:
        install(python, "--no-deps", *OTHERS)
    except subprocess.CalledProcessError as exc:
        absent = ("No matching distribution", "Could not find a version", "Connection")
        if any(sign in exc.stderr for sign in absent):
            pytest.skip("no package index")
        raise
    install(python, "--no-deps", "--no-index", str(wheel_file))
    borrow_packages(python)
    return python.with_name("strowger")


def check(command: Path, config: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (str(command), "check", str(config)),
        cwd=config.parent,
        env={"PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.nightly
@pytest.mark.anyio
async def test_it_serves_next_to_distributions_of_others_with_these_names(
    wheel_file: Path, tmp_path: Path
) -> None:
    command = installed_next_to_others(wheel_file, tmp_path / "environment")
    (packages,) = command.parents[1].glob("lib/python*/site-packages")
    assert (packages / "adapters" / "__init__.py").is_file(), "that of others"
    hello = {"model": "chat", "messages": [{"role": "user", "content": "Hello!"}]}

    async with provider() as remote:
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(url=remote.base_url))
        checked = await asyncio.to_thread(check, command, config)
        async with (
            commanded(
                tmp_path / "served.yaml",
                config.read_text(),
                env={"PYTHONPATH": ""},
                command=(str(command),),
                folder=tmp_path,
            ) as gateway,
            gateway.client() as client,
        ):
            answer = await client.post("/v1/chat/completions", json=hello)

    assert checked.returncode == 0, checked.stderr
    assert answer.json()["choices"][0]["message"]["content"] == "hello", answer.text
