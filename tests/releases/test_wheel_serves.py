"""The wheel, installed where no checkout is, is a whole gateway."""

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.gateway.commanded import SOON_S, commanded
from tests.releases.installed import borrow_packages, empty_environment, install

ROOT = Path(__file__).parents[2]
CONFIG = """
auth: {admin_key: an-operators-key-of-some-length}
providers:
  - {name: here, adapter: local, engine: {models: [{name: tiny, path: "bundled:tiny-chat"}]}}
models:
  - {name: tiny, defaults: {temperature: 0}, backends: [{provider: here, model: tiny}]}
"""
ADMIN = {"authorization": "Bearer an-operators-key-of-some-length"}


@pytest.fixture(scope="module")
def command(wheel_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`strowger` of the wheel; the packages that it depends on are those of the tests."""
    python = empty_environment(tmp_path_factory.mktemp("environment"))
    install(python, "--no-deps", "--no-index", str(wheel_file))
    borrow_packages(python)
    return python.with_name("strowger")


def output(command: Path, *words: str, folder: Path) -> str:
    done = subprocess.run(
        (str(command), *words),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_its_code_is_that_of_the_wheel(command: Path, tmp_path: Path) -> None:
    program = "import gateway, local_engine; print(gateway.__file__, local_engine.__file__)"

    places = output(command.with_name("python"), "-c", program, folder=tmp_path).split()

    assert all(Path(place).is_relative_to(command.parents[1]) for place in places), places


def test_its_commands_have_their_files(command: Path, tmp_path: Path) -> None:
    schema = output(command, "schema", folder=tmp_path)

    assert json.loads(schema) == json.loads((ROOT / "docs/config.schema.json").read_text("utf-8"))
    assert "anthropic" in output(command, "models", folder=tmp_path)
    assert "0." in output(command, "--version", folder=tmp_path)


@pytest.mark.anyio
async def test_it_serves_the_bundled_model_the_admin_page_and_the_documentation(
    command: Path, tmp_path: Path
) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Hello!"}]}

    async with (
        commanded(
            tmp_path / "config.yaml",
            CONFIG,
            env={"PYTHONPATH": ""},
            command=(str(command),),
            folder=tmp_path,
        ) as gateway,
        gateway.client() as client,
    ):
        async with asyncio.timeout(SOON_S):
            while (await client.get("/readyz")).status_code != 200:  # noqa: ASYNC110  engine loads
                await asyncio.sleep(0.05)
        answer = await client.post("/v1/chat/completions", json=body)
        pages = {
            path: (await client.get(path, headers=ADMIN)).status_code
            for path in ("/admin", "/admin/static/page.js", "/docs", "/openapi.json", "/metrics")
        }

    assert answer.json()["choices"][0]["message"]["content"], answer.text
    assert set(pages.values()) == {200}, pages
