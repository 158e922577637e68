"""The wheel, installed where no checkout is, is a whole gateway; in `make nightly-wheel`."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.gateway.commanded import SOON_S, commanded
from tests.releases.installed import borrow_packages, empty_environment, install
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
REMOTE = """
auth: {{admin_key: an-operators-key-of-some-length}}
providers: [{{name: a, adapter: openai, base_url: "{url}", api_key: k}}]
models: [{{name: chat, backends: [{{provider: a, model: x}}]}}]
"""
LOCAL = """
providers:
  - {name: here, adapter: local, engine: {models: [{name: tiny, path: "bundled:tiny-chat"}]}}
models:
  - {name: chat, defaults: {temperature: 0}, backends: [{provider: here, model: tiny}]}
"""
HELLO = {"model": "chat", "messages": [{"role": "user", "content": "Hello!"}]}
ADMIN = {"authorization": "Bearer an-operators-key-of-some-length"}


def command_of(wheel_file: Path, folder: Path, *extras: str) -> Path:
    """`strowger` of the wheel, with the packages that it declares and no others."""
    python = empty_environment(folder)
    install(python, "--no-deps", "--no-index", str(wheel_file))
    borrow_packages(python, *extras)
    return python.with_name("strowger")


@pytest.fixture(scope="module")
def command(wheel_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return command_of(wheel_file, tmp_path_factory.mktemp("environment"))


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
    program = "import strowger_gateway.local_engine as one; print(one.__file__)"

    places = output(command.with_name("python"), "-c", program, folder=tmp_path).split()

    assert all(Path(place).is_relative_to(command.parents[1]) for place in places), places


def test_its_commands_have_their_files(command: Path, tmp_path: Path) -> None:
    schema = output(command, "schema", folder=tmp_path)

    assert json.loads(schema) == json.loads((ROOT / "docs/config.schema.json").read_text("utf-8"))
    assert "anthropic" in output(command, "models", folder=tmp_path)
    assert "0." in output(command, "--version", folder=tmp_path)


@pytest.mark.anyio
async def test_without_extras_it_serves_remote_providers_the_admin_page_and_the_documentation(
    command: Path, tmp_path: Path
) -> None:
    async with (
        provider() as remote,
        served(command, REMOTE.format(url=remote.base_url), tmp_path) as client,
    ):
        answer = await client.post("/v1/chat/completions", json=HELLO)
        paths = (
            *("/admin", "/admin/usage", "/admin/keys", "/admin/static/page.js", "/metrics"),
            *("/docs", "/docs/page.css", "/openapi.json", "/v1/models"),
        )
        pages = {path: (await client.get(path, headers=ADMIN)).status_code for path in paths}

    assert answer.json()["choices"][0]["message"]["content"] == "hello", answer.text
    assert set(pages.values()) == {200}, pages


@pytest.mark.anyio
async def test_with_the_extra_local_it_serves_the_bundled_model(
    wheel_file: Path, tmp_path: Path
) -> None:
    command = command_of(wheel_file, tmp_path / "environment", "local")

    async with served(command, LOCAL, tmp_path) as client:
        async with asyncio.timeout(SOON_S):
            while (await client.get("/readyz")).status_code != 200:  # noqa: ASYNC110  engine loads
                await asyncio.sleep(0.05)
        answer = await client.post("/v1/chat/completions", json=HELLO)

    assert answer.json()["choices"][0]["message"]["content"], answer.text


@asynccontextmanager
async def served(command: Path, config: str, folder: Path) -> AsyncGenerator[httpx.AsyncClient]:
    async with (
        commanded(
            folder / "config.yaml",
            config,
            env={"PYTHONPATH": ""},
            command=(str(command),),
            folder=folder,
        ) as gateway,
        gateway.client() as client,
    ):
        yield client
