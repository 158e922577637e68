"""Connecting to an engine that is down or silent: waiters, timeouts, and no open sockets."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from strowger_gateway.gateway.backends.engines.link.places import EnginePlace, TcpPlace, UnixPlace
from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.backends.upstream.local_engine import LocalUpstream
from strowger_gateway.gateway.config.schema.connection import Timeouts
from strowger_gateway.local_engine.protocol.address import TcpAddress
from strowger_gateway.local_engine.protocol.mutual_tls import MutualTls
from strowger_gateway.schemas.answers import Answer, Fold
from strowger_gateway.schemas.errors import UpstreamStarting, UpstreamTimeout
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest
from tests.gateway.backends.engines.link.fleets import Certificates
from tests.gateway.backends.engines.link.transports import TRANSPORTS
from tests.gateway.routing.failures.engine_stand_in import Asked, Door, StandIns, stand_ins, works
from tests.local_engine.listening.ports import paths_of

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


class Doors:
    """The places of stand-in engines, one way or the other. secured: over TCP."""

    def __init__(self, folder: Path, secured: Certificates | None) -> None:
        self._folder, self._secured = folder, secured
        self.context = None if secured is None else secured.server_context()

    def place(self, door: Door, engines: StandIns) -> EnginePlace:
        if self._secured is None:
            return UnixPlace(self._folder / f"{door}.sock")
        tls = MutualTls(paths_of(self._secured.gateway), server=False)
        return TcpPlace(TcpAddress("127.0.0.1", engines.ports[door]), tls)


@pytest.fixture(params=TRANSPORTS)
def doors(request: pytest.FixtureRequest, tmp_path: Path) -> Doors:
    return Doors(tmp_path, None if request.param == "socket" else Certificates(tmp_path))


async def test_after_a_restart_no_request_waits_for_the_backoff(
    tmp_path: Path, doors: Doors
) -> None:
    async with stand_ins(tmp_path, context=doors.context) as engines:
        upstream = LocalUpstream("here", doors.place("opens", engines))
    with pytest.raises(UpstreamStarting):
        await ask(upstream)

    async with AsyncExitStack() as stack:
        if doors.context is None:
            await stack.enter_async_context(stand_ins(tmp_path))
        else:
            server = await engines.listen(doors.context, engines.ports["opens"])
            await stack.enter_async_context(server)
        upstream.on_engine_ready()
        answer = await ask(upstream)
        await upstream.aclose()

    assert answer.choices[0].text == "hello"


async def test_a_caller_that_stops_waiting_for_a_silent_engine_leaves_no_connection_open(
    tmp_path: Path, doors: Doors
) -> None:
    async with stand_ins(tmp_path, context=doors.context) as engines:
        place = doors.place("silent", engines)
        patient = LocalUpstream("here", place)
        leaving = [asyncio.create_task(ask(patient)) for _ in range(3)]
        await engines.until(lambda: engines.open["silent"] == 1)
        for one in leaving:
            one.cancel()
        await asyncio.wait(leaving)
        await engines.until(lambda: engines.open["silent"] == 0)

        hasty = LocalUpstream("here", place, Timeouts(connect_s=0.3))
        late = await asyncio.gather(*(ask(hasty) for _ in range(3)), return_exceptions=True)
        await engines.until(lambda: engines.open["silent"] == 0)

    assert isinstance(late[0], UpstreamTimeout)
    assert "connect_s" in str(late[0])
    assert all(isinstance(one, UpstreamTimeout | UpstreamStarting) for one in late)


async def test_a_request_that_hangs_blocks_no_other_on_the_same_connection(
    tmp_path: Path, doors: Doors
) -> None:
    async def conduct(asked: Asked) -> None:
        await (asked.gone.wait() if asked.model == "hangs" else works(asked))

    async with stand_ins(tmp_path, conduct, context=doors.context) as engines:
        upstream = LocalUpstream("here", doors.place("opens", engines), Timeouts(first_token_s=0.7))
        hanging = asyncio.create_task(ask(upstream, "hangs"))
        answers = await asyncio.gather(*(ask(upstream) for _ in range(20)))
        connections = engines.open["opens"]
        with pytest.raises(UpstreamTimeout, match="first_token_s"):
            await hanging
        await engines.until(lambda: engines.cancelled == ["hangs"])
        await upstream.aclose()

    assert [one.choices[0].text for one in answers] == ["hello"] * 20
    assert connections == 1
