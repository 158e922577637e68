"""A gateway that is stopped: it finishes what is under way, and closes every connection."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.gateway.commanded import SOON_S
from tests.gateway.forked_commands import forked
from tests.gateway.server.http1.front import BODY, IS_LATE, WAITS, get, post
from tests.gateway.server.http1.wire import PROBE, dial
from tests.gateway.serving import one_model
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio


class Provides:
    """Answers to requests of a user when the test allows it, and at once to all others."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def behave(self, request: Received, answer: Answer) -> None:
        if request.json.get("stream"):
            await answer.begin_stream()
            await answer.text("hel")
            await self.go_on.wait()
            await answer.text("lo")
            await answer.end_stream()
            return
        if request.json.get("user"):
            await self.go_on.wait()
        await answer.chat()


def config(base_url: str, drain_timeout_s: float, delay_s: float = 0.3) -> str:
    server = f"server: {{drain_delay_s: {delay_s}, drain_timeout_s: {drain_timeout_s}}}"
    patient = one_model(base_url, server).replace("tokens_s: 1", "tokens_s: 60")
    return patient.replace("token_s: 1", "token_s: 60").replace("total_s: 5", "total_s: 60")


async def test_what_is_under_way_is_finished_and_every_connection_closed(tmp_path: Path) -> None:
    provides = Provides()
    async with (
        provider(provides.behave) as remote,
        forked(tmp_path / "config.yaml", config(remote.base_url, 20, delay_s=1)) as up,
    ):
        used, unused, half, streaming, late = [await dial(up.url) for _ in range(5)]
        await used.send(PROBE)
        first = await used.reply()
        await asyncio.sleep(1)
        assert await used.kept()
        await half.send(get()[:20])
        await streaming.send(post(WAITS))
        await streaming.until(b"hel")
        await late.send(post(IS_LATE))
        await remote.until(lambda: len(remote.requests) == 2)

        up.process.send_signal(signal.SIGTERM)
        await up.said("draining")
        await used.send(post(BODY))
        before = await used.reply()
        gone = await used.ended(), await unused.ended()
        new = await dial(up.url)
        await new.send(post(BODY))
        refused = await new.reply()
        provides.go_on.set()
        rest = await streaming.rest()
        whole = await late.reply()
        closed = [await one.ended() for one in (half, late, new)]
        await asyncio.wait_for(up.process.wait(), SOON_S)

        with pytest.raises(ConnectionRefusedError):
            await dial(up.url)

    assert (first.status, first["server"]) == (200, "")
    assert first["date"]
    assert (before.status, before["connection"]) == (200, "close")
    assert gone == (True, True)
    assert (refused.status, refused["connection"]) == (503, "close")
    assert b'"lo"' in rest
    assert rest.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert json.loads(whole.body)["choices"][0]["message"]["content"] == "hello"
    assert closed == [True] * 3
    assert up.process.returncode == 0


async def test_a_client_that_keeps_its_connection_is_served_until_the_gateway_ends_it(
    tmp_path: Path,
) -> None:
    async with (
        provider(Provides().behave) as remote,
        forked(tmp_path / "config.yaml", config(remote.base_url, 20, delay_s=2)) as up,
    ):
        busy, idle, both = [await dial(up.url) for _ in range(3)]
        for one in (busy, idle):
            await one.send(post(BODY))
            assert (await one.reply())["connection"] == ""

        up.process.send_signal(signal.SIGTERM)
        await up.said("draining")
        await busy.send(post(BODY))
        last = await busy.reply()
        await both.send(post(BODY) + post(BODY))
        pipelined = [await both.reply(), await both.reply()]
        ended = [await one.ended() for one in (busy, idle, both)]
        await asyncio.wait_for(up.process.wait(), SOON_S)

    assert (last.status, last["connection"]) == (200, "close")
    assert [one.status for one in pipelined] == [200, 200]
    assert [one["connection"] for one in pipelined] == ["", "close"]
    assert ended == [True] * 3


async def test_what_outlasts_the_drain_is_cut_and_never_looks_whole(tmp_path: Path) -> None:
    provides = Provides()
    async with (
        provider(provides.behave) as remote,
        forked(tmp_path / "config.yaml", config(remote.base_url, 0.2)) as up,
    ):
        streaming, late = await dial(up.url), await dial(up.url)
        await streaming.send(post(WAITS))
        await streaming.until(b"hel")
        await late.send(post(IS_LATE))
        await remote.until(lambda: len(remote.requests) == 2)

        up.process.send_signal(signal.SIGINT)
        rest = await streaming.rest()
        answer = await late.rest()
        await asyncio.wait_for(up.process.wait(), SOON_S)

    assert b"[DONE]" not in rest
    assert not rest.endswith(b"0\r\n\r\n")
    assert answer == b"" or answer[9:12] in (b"500", b"503")
    assert up.process.returncode == 0
