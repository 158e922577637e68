"""Connecting to an engine that is down or silent: waiters, timeouts, and no open sockets."""

import asyncio
from pathlib import Path

import pytest

from gateway.config.schema.connection import Timeouts
from gateway.engine_link.places import UnixPlace
from gateway.upstream.base import Call
from gateway.upstream.local_engine import LocalUpstream
from schemas.answers import Answer, Fold
from schemas.errors import UpstreamStarting, UpstreamTimeout
from schemas.messages import Message
from schemas.requests import ChatRequest
from tests.gateway.failures.engine_stand_in import Asked, stand_ins, works

pytestmark = pytest.mark.anyio

HELLO = ChatRequest(model="m", messages=(Message(role="user", content="hi"),))


async def ask(upstream: LocalUpstream, model: str = "m") -> Answer:
    deadline = asyncio.get_running_loop().time() + 10
    fold = Fold()
    async for batch in upstream.generate(
        HELLO, Call(model=model, deadline=deadline, request_id="r-1")
    ):
        fold.add(batch)
    return fold.answer()


async def test_after_a_restart_no_request_waits_for_the_backoff(tmp_path: Path) -> None:
    upstream = LocalUpstream("here", UnixPlace(tmp_path / "opens.sock"))
    with pytest.raises(UpstreamStarting):
        await ask(upstream)

    async with stand_ins(tmp_path):
        upstream.on_engine_ready()
        answer = await ask(upstream)
        await upstream.aclose()

    assert answer.choices[0].text == "hello"


async def test_a_caller_that_stops_waiting_for_a_silent_engine_leaves_no_connection_open(
    tmp_path: Path,
) -> None:
    async with stand_ins(tmp_path) as engines:
        patient = LocalUpstream("here", UnixPlace(tmp_path / "silent.sock"))
        leaving = [asyncio.create_task(ask(patient)) for _ in range(3)]
        await engines.until(lambda: engines.open["silent"] == 1)
        for one in leaving:
            one.cancel()
        await asyncio.wait(leaving)
        await engines.until(lambda: engines.open["silent"] == 0)

        hasty = LocalUpstream("here", UnixPlace(tmp_path / "silent.sock"), Timeouts(connect_s=0.1))
        late = await asyncio.gather(*(ask(hasty) for _ in range(3)), return_exceptions=True)
        await engines.until(lambda: engines.open["silent"] == 0)

    assert isinstance(late[0], UpstreamTimeout)
    assert "connect_s" in str(late[0])
    assert all(isinstance(one, UpstreamTimeout | UpstreamStarting) for one in late)


async def test_a_request_that_hangs_blocks_no_other_on_the_same_connection(
    tmp_path: Path,
) -> None:
    async def conduct(asked: Asked) -> None:
        await (asked.gone.wait() if asked.model == "hangs" else works(asked))

    async with stand_ins(tmp_path, conduct) as engines:
        upstream = LocalUpstream(
            "here", UnixPlace(tmp_path / "opens.sock"), Timeouts(first_token_s=0.7)
        )
        hanging = asyncio.create_task(ask(upstream, "hangs"))
        answers = await asyncio.gather(*(ask(upstream) for _ in range(20)))
        connections = engines.open["opens"]
        with pytest.raises(UpstreamTimeout, match="first_token_s"):
            await hanging
        await engines.until(lambda: engines.cancelled == ["hangs"])
        await upstream.aclose()

    assert [one.choices[0].text for one in answers] == ["hello"] * 20
    assert connections == 1
