"""LoRA adapters through the engine's process and socket, configured and sent by clients."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from strowger_gateway.gateway.backends.engines.link.places import EnginePlace, UnixPlace
from strowger_gateway.gateway.backends.engines.process.process import EngineProcess
from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.backends.upstream.local_engine import LocalUpstream
from strowger_gateway.local_engine.config import EngineConfig, LoraConfig
from strowger_gateway.local_engine.server.connection import Connection
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.events import Tokens
from strowger_gateway.schemas.requests import LoraRequest, TokenRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.gateway.backends.engines.link.transports import TRANSPORTS, place_of
from tests.local_engine.peft.random_adapters import (
    random_pairs,
    save_adapter,
    save_merged,
    trt_lora,
)
from tests.local_engine.services import MODEL, Oracle, config, serving
from tests.local_engine.tiny import save_model

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::ResourceWarning")]

SOON_S = 60.0
COUNT = 8
PLAIN = TokenRequest(
    model=MODEL,
    tokens=tuple(range(50, 70)),
    sampling=Sampling(temperature=0.0, max_tokens=COUNT, ignore_eos=True),
)


async def tokens(
    upstream: LocalUpstream, request: TokenRequest, tenant: str, *, model: str = MODEL
) -> list[int]:
    deadline = asyncio.get_running_loop().time() + SOON_S
    call = Call(model=model, deadline=deadline, request_id="r-1", tenant=tenant)
    async with aclosing(upstream.generate(request, call)) as batches:
        events = [event async for batch in batches for event in batch]
    return [id for event in events if isinstance(event, Tokens) for id in event.ids]


@asynccontextmanager
async def running(
    transport: str, settings: EngineConfig, folder: Path
) -> AsyncGenerator[EnginePlace, None]:
    """The engine's process with its socket, or an engine in this process."""
    if transport in TRANSPORTS:
        async with serving(settings) as service:
            async with place_of(transport, partial(Connection, service), folder) as place:
                yield place
        return
    async with EngineProcess("here", settings, folder) as process:
        async with asyncio.timeout(SOON_S):
            assert await process.wait_ready(), process.status
        yield UnixPlace(process.socket_path)


@pytest.mark.parametrize(
    "transport", [*TRANSPORTS, pytest.param("process", marks=pytest.mark.nightly)]
)
async def test_an_engine_serves_configured_and_sent_adapters(
    transport: str, tmp_path: Path
) -> None:
    base = save_model(tmp_path / "base", "llama", tie_word_embeddings=False)
    pairs = [random_pairs(base, seed) for seed in (1, 2)]
    merged = [save_merged(tmp_path / str(i), base, each) for i, each in enumerate(pairs)]
    expected = [Oracle(each).greedy(list(PLAIN.tokens), COUNT) for each in (base, *merged)]
    folder = save_adapter(tmp_path / "sql", pairs[0])
    settings = config(
        base,
        threads=1,
        accept_lora=True,
        loras=(LoraConfig(name="sql", path=str(folder), base=MODEL),),
    )
    sent = msgspec.structs.replace(PLAIN, lora=trt_lora(7, pairs[1]))
    named = msgspec.structs.replace(PLAIN, lora=LoraRequest(task_id=7))

    async with running(transport, settings, tmp_path) as place:
        upstream = LocalUpstream("here", place)
        answers = [
            await tokens(upstream, PLAIN, "a"),
            await tokens(upstream, PLAIN, "a", model="sql"),
            await tokens(upstream, sent, "a"),
            await tokens(upstream, named, "a"),
        ]
        with pytest.raises(InvalidRequest, match="7 is not in the adapter cache") as caught:
            await tokens(upstream, named, "b")
        await upstream.aclose()

    assert answers == [*expected, expected[2]]
    assert caught.value.param == "lora_task_id"
