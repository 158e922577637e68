"""What a terminal sends to the gateway: Ctrl-C, the end of the terminal, and Ctrl-Z."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from tests.gateway.cli.terminals.screen import OnScreen, serving_on_screen
from tests.gateway.commanded import SOON_S, importer_of, importer_started
from tests.gateway.observability.recording.test_importer_process import until_gone
from tests.gateway.observability.recording.test_serving_records import (
    ALONE,
    HELLO,
    TWO,
    answered,
    known,
)
from tests.gateway.serving import one_model
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

AGAIN = "Ctrl-C again stops without waiting"
STREAM = {**HELLO, "stream": True}


class Held(Struct, kw_only=True, eq=False):
    """A gateway in a terminal, with a stream that has begun. go: its provider sends the rest."""

    up: OnScreen
    go: asyncio.Event
    stream: httpx.Response

    async def rest(self) -> str:
        """What the client still receives; it ends with the word [DONE] if that is all."""
        received = ""
        try:
            async with asyncio.timeout(SOON_S):
                async for text in self.stream.aiter_text():
                    received += text
        except httpx.RemoteProtocolError:
            pass
        return received.rstrip()


@asynccontextmanager
async def held(folder: Path, workers: str) -> AsyncGenerator[Held, None]:
    go = asyncio.Event()

    async def behave(request: Received, answer: Answer) -> None:
        if not request.json.get("stream"):
            await answer.chat()
            return
        await answer.begin_stream()
        await answer.text("hel")
        await go.wait()
        await answer.text("lo")
        await answer.end_stream()

    async with provider(behave) as remote:
        slow = one_model(remote.base_url, workers).replace(
            "between_tokens_s: 1, total_s: 5", "total_s: 60"
        )
        async with (
            serving_on_screen(folder / "config.yaml", slow) as up,
            up.client() as client,
            client.stream("POST", "/v1/chat/completions", json=STREAM) as stream,
        ):
            yield Held(up=up, go=go, stream=stream)
            go.set()


async def with_each(tmp_path: Path, test: Callable[[Held], Awaitable[None]]) -> None:
    """With one process and with two workers, at the same time; what was answered is recorded."""

    async def run(workers: str) -> None:
        folder = tmp_path / str(len(workers))
        folder.mkdir()
        async with held(folder, workers) as found:
            await test(found)
            name = found.stream.headers["x-gateway-request-id"]
        assert "Traceback" not in found.up.screen.shown
        assert known(folder, [name]) == {name}

    await asyncio.gather(*(run(workers) for workers in (ALONE, TWO)))


async def test_sighup_reloads_ctrl_z_pauses_and_ctrl_c_lets_requests_end(tmp_path: Path) -> None:
    async def signalled(found: Held) -> None:
        up, pid = found.up, found.up.process.pid
        importer = await importer_started(pid)

        os.killpg(pid, signal.SIGHUP)
        await up.screen.shows("reading the configuration", "SIGHUP")
        # Without a shell the group is orphaned, and then the kernel ignores Ctrl-Z itself.
        os.killpg(pid, signal.SIGSTOP)
        await asyncio.sleep(0.3)
        os.killpg(pid, signal.SIGCONT)
        async with up.client() as client:
            await answered(client)
        same = importer_of(pid) == importer
        up.screen.type(b"\x03")
        await up.screen.shows(AGAIN)
        found.go.set()
        rest = await found.rest()
        status = await up.exits()

        assert rest.endswith("[DONE]")
        assert (same, status) == (True, 0)
        assert "stopped" in up.screen.shown
        assert "restarting" not in up.screen.shown

    await with_each(tmp_path, signalled)


async def test_a_gateway_whose_terminal_is_closed_lets_requests_end_and_exits(
    tmp_path: Path,
) -> None:
    async def stopped(found: Held) -> None:
        importer = await importer_started(found.up.process.pid)
        found.up.screen.hang_up()
        found.go.set()
        rest = await found.rest()
        status = await found.up.exits()
        await until_gone(importer)

        assert rest.endswith("[DONE]")
        assert status == 0

    await with_each(tmp_path, stopped)


async def test_a_second_ctrl_c_ends_requests(tmp_path: Path) -> None:
    async with held(tmp_path, ALONE) as found:
        found.up.screen.type(b"\x03")
        await found.up.screen.shows(AGAIN)
        found.up.screen.type(b"\x03")
        rest = await found.rest()
        status = await found.up.exits()

    assert not rest.endswith("[DONE]")
    assert status == 0
    assert "Traceback" not in found.up.screen.shown


async def test_a_gateway_that_was_started_with_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    async with provider() as remote:
        text = one_model(remote.base_url, ALONE)
        async with serving_on_screen(tmp_path / "config.yaml", text, nohup=True) as up:
            importer = await importer_started(up.process.pid)
            up.screen.hang_up()
            os.kill(up.process.pid, signal.SIGHUP)
            async with up.client() as client:
                name = await answered(client)
            up.process.terminate()
            status = await up.exits()
            await until_gone(importer)

    assert status == 0
    assert known(tmp_path, [name]) == {name}
