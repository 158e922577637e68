"""An upgrade of the files under a running gateway: no worker starts with code of its own."""

import os
import shutil
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from strowger_gateway.gateway.platform.code_on_disk import PACKAGES, CodeOnDisk
from tests.gateway.commanded import Commanded, commanded, connected, pid_of
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
CONFIG = """
providers:
  - {{name: one, adapter: openai, base_url: {url}, api_key: sk-of-the-operator}}
models:
  - {{name: chat, backends: [{{provider: one, model: m-1}}]}}
"""
HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
CHAT = "/v1/chat/completions"
FILE = Path("strowger_gateway") / "gateway" / "fleet" / "processes" / "messages.py"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages in a folder of their own, with the bytecode that is there."""
    folder = tmp_path_factory.mktemp("installed")
    for package in PACKAGES:
        leave_out = shutil.ignore_patterns("*.safetensors")
        shutil.copytree(ROOT / package, folder / package, ignore=leave_out)
    shutil.copy(ROOT / "strowger_gateway" / "__init__.py", folder / "strowger_gateway")
    return folder


@pytest.fixture
async def up(installed: Path, tmp_path: Path) -> AsyncGenerator[Commanded, None]:
    environment = {"PYTHONPATH": str(installed)}
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        text = CONFIG.format(url=remote.base_url)
        yield await stack.enter_async_context(
            commanded(
                *(tmp_path / "config.yaml", text, "--workers", "2"),
                env=environment,
                folder=tmp_path,
            )
        )


async def test_a_lost_worker_waits_for_a_restart_and_the_last_ends_the_gateway(
    installed: Path, up: Commanded
) -> None:
    file = installed / FILE
    text = file.read_text()
    async with AsyncExitStack() as stack:
        first, second = [await connected(up, stack, worker) for worker in range(2)]
        file.write_text(f"{text}# the next version\n")
        os.kill(pid_of(first), signal.SIGKILL)

        told = await up.said("worker 0 cannot be started", str(FILE), "restart the gateway")
        answer = await second.post(CHAT, json=HELLO)

        assert "trying again in" in told
        assert answer.status_code == 200

        file.write_text(text)  # with another time of change, and the same content
        again = await connected(up, stack, 0)
        assert (await again.post(CHAT, json=HELLO)).status_code == 200

        file.write_text(f"{text}# the next version\n")
        for client in (again, second):
            os.kill(pid_of(client), signal.SIGKILL)
        assert await up.process.wait() == 1
        assert any("stopping, because no worker is left" in line for line in up.lines)
    file.write_text(text)


def test_the_first_file_that_differs_is_named(tmp_path: Path) -> None:
    package = tmp_path / "strowger_gateway"
    one, two = package / "gateway" / "one.py", package / "schemas" / "deep" / "two.py"
    for file in (one, two):
        file.parent.mkdir(parents=True)
        file.write_text("a = 1\n")
    code = CodeOnDisk(tmp_path)
    assert code.changed() == ""

    (package / "gateway" / "new.py").touch()
    os.utime(one, ns=(0, 0))
    assert code.changed() == "", "a new file or another time alone is not a change of code"

    two.write_text("a = 2\n")
    assert code.changed() == "strowger_gateway/schemas/deep/two.py"

    one.unlink()
    assert code.changed() == "strowger_gateway/gateway/one.py"
