"""A local engine over its real process and socket: answers, cancellation, crashes, restarts."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
import pytest

from strowger_gateway.gateway.backends.engines.link.places import EnginePlace, UnixPlace
from strowger_gateway.gateway.backends.engines.process.process import EngineProcess, engine_settings
from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.backends.upstream.local_engine import LocalUpstream
from strowger_gateway.gateway.config.schema.config import Engine as EngineConfig
from strowger_gateway.gateway.config.schema.config import EngineModel, Lora, Provider
from strowger_gateway.local_engine.config import LoraConfig, ModelConfig
from strowger_gateway.local_engine.server.connection import Connection
from strowger_gateway.schemas.answers import Answer, Fold
from strowger_gateway.schemas.errors import (
    GatewayError,
    InvalidRequest,
    ModelNotFound,
    UpstreamBroken,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from strowger_gateway.schemas.events import Started
from strowger_gateway.schemas.requests import ChatRequest, EmbeddingsRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.gateway.backends.engines.link.transports import TRANSPORTS, place_of
from tests.local_engine.services import MODEL, chat, config, serving
from tests.local_engine.tiny import save_model

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::ResourceWarning")]

SHORT = Sampling(temperature=0.0, max_tokens=6, ignore_eos=True)
ENDLESS = Sampling(temperature=0.0, ignore_eos=True)
SOON_S, PAUSE_S = 120.0, 0.01


class Engine:
    """A running engine and a client of it."""

    def __init__(self, place: EnginePlace) -> None:
        self.place = place
        self.upstream = LocalUpstream("here", place)

    async def ask(self, request: ChatRequest) -> Answer:
        fold = Fold()
        async with aclosing(self.upstream.generate(request, call())) as batches:
            async for batch in batches:
                fold.add(batch)
        return fold.answer()

    async def running(self) -> int:
        stats = (await self.upstream.stats())[MODEL]
        return stats.running + stats.waiting

    async def idle(self) -> None:
        async def nothing_runs() -> bool:
            return await self.running() == 0

        await soon(nothing_runs)

    async def busy(self) -> None:
        """An answer's first event says that it was taken, not that the engine's thread has it."""

        async def one_runs() -> bool:
            return await self.running() == 1

        await soon(one_runs)


async def soon(holds: Callable[[], Awaitable[bool]]) -> None:
    """Asks until it holds, for SOON_S."""
    for _ in range(int(SOON_S / PAUSE_S)):
        if await holds():
            return
        await asyncio.sleep(PAUSE_S)
    pytest.fail("it did not come true in time")


def call(*, model: str = MODEL, seconds: float = SOON_S) -> Call:
    deadline = asyncio.get_running_loop().time() + seconds
    return Call(model=model, deadline=deadline, request_id="r-1", tenant="team")


@asynccontextmanager
async def started(folder: Path, run_dir: Path) -> AsyncGenerator[tuple[Engine, EngineProcess]]:
    settings = msgspec.structs.replace(config(folder), threads=1)
    async with EngineProcess("here", settings, run_dir, backoff_s=0.01) as process:
        async with asyncio.timeout(SOON_S):
            assert await process.wait_ready(), process.status
        engine = Engine(UnixPlace(process.socket_path))
        try:
            yield engine, process
        finally:
            await engine.upstream.aclose()


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("llama"), max_position_embeddings=100_000)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_engine_answers_fails_and_outlives_its_callers(
    transport: str, llama: Path, tmp_path: Path
) -> None:
    """In this process. tests/gateway/backends/engines/process/test_local_engine.py kills others."""
    async with serving(config(llama)) as service:
        async with place_of(transport, partial(Connection, service), tmp_path) as place:
            engine = Engine(place)
            await every_call_ends_as_it_should(engine)
            stream = engine.upstream.generate(chat("on", ENDLESS), call())
            await anext(stream)
        if transport == "tcp":
            with pytest.raises(UpstreamBroken, match="here: the connection to the engine is lost"):
                async for _ in stream:
                    pass
            with pytest.raises(UpstreamUnreachable, match="here: the engine does not respond"):
                await engine.ask(chat("too late", SHORT))
        await engine.upstream.aclose()


@pytest.mark.nightly
async def test_a_process_answers_fails_comes_back_and_outlives_its_callers(
    llama: Path, tmp_path: Path
) -> None:
    """One process for all of these: it takes seconds to start."""
    async with started(llama, tmp_path) as (engine, process):
        await every_call_ends_as_it_should(engine)
        await a_killed_engine_fails_its_calls_and_comes_back(engine, process)

    assert process.status == "stopped"
    with pytest.raises(UpstreamUnreachable, match="here: the engine does not respond"):
        await engine.ask(chat("too late", SHORT))


async def every_call_ends_as_it_should(engine: Engine) -> None:
    await answers_are_the_same_alone_and_side_by_side(engine)
    await refusals_arrive_as_what_they_are(engine)
    await a_closed_generator_frees_its_sequence(engine)
    await a_task_cancelled_before_content_frees_its_sequence(engine)
    await a_deadline_ends_the_wait(engine)
    await a_lost_client_takes_its_sequences_along(engine)


async def answers_are_the_same_alone_and_side_by_side(engine: Engine) -> None:
    alone = [await engine.ask(chat(text, SHORT)) for text in ("one", "two", "three")]
    together = await asyncio.gather(
        *(engine.ask(chat(text, SHORT)) for text in ("one", "two", "three"))
    )

    assert [a.choices[0].text for a in together] == [a.choices[0].text for a in alone]
    assert alone[0].started.model == MODEL
    assert alone[0].started.id == "r-1"
    assert alone[0].usage is not None
    assert alone[0].usage.completion_tokens == 6


async def refusals_arrive_as_what_they_are(engine: Engine) -> None:
    bad = chat("x", Sampling(top_p=2.0))
    with pytest.raises(InvalidRequest, match="top_p") as caught:
        await engine.ask(bad)
    assert caught.value.param == "top_p"

    with pytest.raises(ModelNotFound, match="other"):
        await anext(engine.upstream.generate(chat("x", SHORT), call(model="other")))
    with pytest.raises(InvalidRequest, match="does not embed"):
        await engine.upstream.embed(EmbeddingsRequest(model=MODEL, inputs=("x",)), call())


async def a_closed_generator_frees_its_sequence(engine: Engine) -> None:
    async with aclosing(engine.upstream.generate(chat("on and on", ENDLESS), call())) as batches:
        async for batch in batches:
            if not isinstance(batch[0], Started):
                break
        await engine.busy()

    await engine.idle()


async def a_task_cancelled_before_content_frees_its_sequence(engine: Engine) -> None:
    task = asyncio.ensure_future(engine.ask(chat("on and on", ENDLESS)))
    await engine.busy()

    task.cancel()

    await engine.idle()


async def a_deadline_ends_the_wait(engine: Engine) -> None:
    with pytest.raises(UpstreamTimeout, match="here"):
        async for _ in engine.upstream.generate(chat("on", ENDLESS), call(seconds=0.3)):
            pass

    await engine.idle()


async def a_lost_client_takes_its_sequences_along(engine: Engine) -> None:
    other = LocalUpstream("other", engine.place)
    stream = other.generate(chat("on and on", ENDLESS), call())
    await anext(stream)
    await engine.busy()

    await other.aclose()

    await engine.idle()
    with pytest.raises(UpstreamBroken, match="other: the connection to the engine is lost"):
        async for _ in stream:
            pass


async def a_killed_engine_fails_its_calls_and_comes_back(
    engine: Engine, process: EngineProcess
) -> None:
    streams = [engine.upstream.generate(chat("on", ENDLESS), call()) for _ in range(2)]
    for stream in streams:
        await anext(stream)
    assert process.pid is not None

    os.kill(process.pid, signal.SIGKILL)

    for stream in streams:
        with pytest.raises(UpstreamBroken, match="here: the connection to the engine is lost"):
            async for _ in stream:
                pass
    async with asyncio.timeout(SOON_S):
        assert await process.wait_ready()
    assert (await again(engine)).choices[0].finish is not None


async def again(engine: Engine) -> Answer:
    """The first try may fall into the pause after a failed connection."""
    for _ in range(int(SOON_S / PAUSE_S)):
        with suppress(GatewayError):
            return await engine.ask(chat("one", SHORT))
        await asyncio.sleep(PAUSE_S)
    pytest.fail("the engine did not come back")


async def test_what_cannot_be_served_is_reported_and_not_tried_again(tmp_path: Path) -> None:
    process = EngineProcess("here", config(tmp_path / "missing"), tmp_path)

    await process.start()
    ready = await process.wait_ready()

    assert not ready
    assert process.status.startswith("failed: the model at")
    await process.stop()


def test_settings_are_the_providers() -> None:
    model = EngineModel(name="m", path="bundled:tiny-chat")
    embedder = EngineModel(name="e", path="./e", task="embed")
    engine = EngineConfig(
        models=(embedder, model),
        threads=3,
        max_step_tokens=64,
        kv_cache=1 << 20,
        loras=(Lora(name="sql", path="./sql"), Lora(name="de", path="./de", base="m")),
        accept_lora=True,
        max_loras=3,
        max_lora_bytes=1 << 16,
    )
    provider = Provider(name="here", adapter="local", engine=engine)

    settings = engine_settings(provider)

    assert settings.models[1] == ModelConfig(name="m", path="bundled:tiny-chat")
    assert (settings.threads, settings.max_step_tokens, settings.max_new_tokens) == (3, 64, None)
    assert settings.kv_cache == 1 << 20
    assert settings.loras == (
        LoraConfig(name="sql", path="./sql", base="m"),
        LoraConfig(name="de", path="./de", base="m"),
    )
    assert (settings.accept_lora, settings.max_loras) == (True, 3)
    assert settings.max_lora_bytes == 1 << 16


async def test_an_engine_that_still_loads_ends_when_its_parent_is_gone(
    llama: Path, tmp_path: Path
) -> None:
    """tests/gateway/backends/engines/process/test_local_engine.py kills the parent of one that
    serves.
    """
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "strowger_gateway.local_engine",
            "--socket",
            str(tmp_path / "e.sock"),
        ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate(msgspec.json.encode(config(llama)) + b"\n")

    assert process.returncode == 0
    assert b"ready" not in said
