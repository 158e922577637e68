"""An engine ends in the middle of an answer, and another of the same model resumes it exactly."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import cast

import httpx
import msgspec
import pytest
from msgspec import Struct

from strowger_gateway.gateway.backends.engines.process.process import EngineView
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.local_engine.protocol.frames import Deltas, FrameReader, ToWorker
from tests.gateway.backends.engines.link.fleets import Certificates
from tests.gateway.backends.engines.link.transports import remote
from tests.gateway.routing.failures.engine_stand_in import StandIn
from tests.gateway.routing.recovery.continuing import Json, ask, beginning, read, say
from tests.gateway.serving import Serving, serving
from tests.gateway.shared_engine import SharedEngine
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::ResourceWarning")]

_decoder: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)


class BreakingRelay:
    """A socket in front of an engine. After `left` batches with events it closes everything.

    left: `None`: it never does. seen: batches of the last connection. once: it breaks only once.
    """

    def __init__(self, path: Path, engine: Path) -> None:
        self.path = path
        self.left: int | None = None
        self.seen = 0
        self.once = False
        self._engine = engine

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        engine_reader, engine_writer = await asyncio.open_unix_connection(str(self._engine))
        self.seen = 0

        async def requests() -> None:
            with suppress(ConnectionError):
                while data := await reader.read(65536):
                    engine_writer.write(data)
            engine_writer.close()

        forwarding = asyncio.create_task(requests())
        frames = FrameReader()
        with suppress(ConnectionError):
            while data := await engine_reader.read(65536):
                for body in frames.feed(data):
                    message = _decoder.decode(body)
                    self.seen += isinstance(message, Deltas)
                    if self.left is not None and self.seen > self.left:
                        self.left = None if self.once else self.left
                        writer.transport.abort()
                        engine_writer.close()
                        break
                    writer.write(len(body).to_bytes(4, "big") + body)
        writer.close()
        engine_writer.close()
        forwarding.cancel()


class Engines(Struct, frozen=True, kw_only=True, eq=False):
    """`broken` is behind the relay, `whole` is the engine itself."""

    broken: Path
    whole: Path

    def serving(self, config: Config) -> Mapping[str, EngineView]:
        paths = {"broken": self.broken, "whole": self.whole}
        return {
            one.name: StandIn(name=one.name, socket_path=paths[one.name])
            for one in config.providers
            if one.engine is not None
        }


def config(engine: SharedEngine, url: str, broken: str = "") -> str:
    """broken: the provider with the relay, if it is not on a socket."""
    socket, whole = (
        engine.provider.replace("name: here", f"name: {name}") for name in ("broken", "whole")
    )
    return f"""
providers:
  - {broken or socket}
  - {whole}
  - {{name: remote, adapter: vllm, base_url: {url}/v1, api_key: k}}
models:
{model("chat", "broken/tiny", "whole/tiny")}
{model("caller", "broken/caller", "whole/caller")}
{model("other", "broken/tiny", "whole/caller")}
{model("to-remote", "broken/tiny", "remote/m")}
{model("from-remote", "remote/m", "whole/tiny")}
{model("alone", "broken/tiny")}
"""


def model(name: str, *backends: str) -> str:
    pairs = [one.split("/") for one in backends]
    listed = ", ".join(f"{{provider: {one}, model: {other}}}" for one, other in pairs)
    return (
        f"  - {{name: {name}, policy: in_order, stream_recovery: continue,\n"
        "     breaker: {min_requests: 100000}, retry: {attempts: 2, backoff_s: 0.01},\n"
        f"     backends: [{listed}]}}"
    )


class Stage(Struct, frozen=True, kw_only=True, eq=False):
    gateway: Serving
    relay: BreakingRelay
    remote: Provider


@pytest.fixture(params=["socket", pytest.param("tcp", marks=pytest.mark.nightly)])
async def stage(
    request: pytest.FixtureRequest, tmp_path: Path, engine: SharedEngine
) -> AsyncGenerator[Stage, None]:
    secured = None if request.param == "socket" else Certificates(tmp_path)
    async with staged(tmp_path, engine, secured) as running:
        yield running


@asynccontextmanager
async def staged(
    tmp_path: Path, engine: SharedEngine, secured: Certificates | None = None
) -> AsyncGenerator[Stage, None]:
    """secured: the relay listens on TCP."""

    async def behave(request: Received, answer: Answer) -> None:
        begun = beginning(request)
        if begun:
            await say(request, answer, [" and so on"])
            return
        await answer.begin_stream()
        await answer.text("17 + 25")
        answer.close()

    relay = BreakingRelay(tmp_path / "relay.sock", engine.process.socket_path)
    broken = ""
    if secured is None:
        server = await asyncio.start_unix_server(relay.serve, relay.path)
    else:
        context = secured.server_context()
        server = await asyncio.start_server(relay.serve, "127.0.0.1", 0, ssl=context)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        broken = remote("broken", address, secured.tls())
    engines = Engines(broken=relay.path, whole=engine.process.socket_path)
    async with server, provider(behave) as vendor:
        text = config(engine, vendor.origin, broken)
        async with serving(text, tmp_path, engine=engines) as gateway:
            yield Stage(gateway=gateway, relay=relay, remote=vendor)


COUNTED = [{"role": "user", "content": "Count to 50."}]
SAMPLED: Json = {"temperature": 1.5, "seed": 7, "max_tokens": 80}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "maxLength": 9},
                    "days": {"type": "integer"},
                },
                "required": ["city", "days"],
            },
        },
    }
]
CHATS: dict[str, tuple[str, Json]] = {
    "greedy": (
        "chat",
        {"temperature": 0, "messages": [{"role": "user", "content": "Count to 30."}]},
    ),
    "sampled": ("chat", SAMPLED),
    "penalties": ("chat", {**SAMPLED, "presence_penalty": 0.8, "frequency_penalty": 0.8}),
    "a schema": (
        "chat",
        {
            **SAMPLED,
            "max_tokens": 60,
            "response_format": {
                "type": "json_schema",
                "json_schema": {
                    "name": "x",
                    "schema": {
                        "type": "object",
                        "properties": {"n": {"type": "string", "maxLength": 12}},
                        "required": ["n"],
                        "additionalProperties": False,
                    },
                },
            },
        },
    ),
}


@pytest.mark.parametrize("case", CHATS)
async def test_the_text_is_that_of_the_uncut_stream_token_for_token(
    stage: Stage, case: str
) -> None:
    name, body = CHATS[case]
    uncut = await ask(stage.gateway.url, model=name, **body)
    batches = stage.relay.seen
    assert (uncut.error, uncut.comments) == ("", ())
    assert batches > 4  # a busy machine brings several tokens at once
    announced = 0
    for place in range(2, batches, max(1, batches // 20)):
        stage.relay.left = place
        got = await ask(stage.gateway.url, model=name, **body)
        assert (got.text, got.finish, got.error, got.roles) == (uncut.text, uncut.finish, "", 1)
        assert got.usage["completion_tokens"] == uncut.usage["completion_tokens"]
        announced += got.comments == (": continued after upstream_lost",)
    assert announced  # before its first text it is a failover like any other


async def test_a_call_of_a_tool_goes_on_in_the_middle_of_its_arguments(stage: Stage) -> None:
    body = {
        "model": "caller",
        "stream": True,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": TOOLS,
        "tool_choice": "required",
        "temperature": 1,
        "seed": 3,
        "max_tokens": 200,
    }

    async def call() -> tuple[str, bool]:
        async with httpx.AsyncClient(timeout=60) as client:
            got = await client.post(f"{stage.gateway.url}/v1/chat/completions", json=body)
        frames = [one[6:] for one in got.text.split("\n\n") if one.startswith("data: {")]
        deltas = [
            cast("Json", choice["delta"])
            for frame in frames
            for choice in cast("Sequence[Json]", msgspec.json.decode(frame)["choices"])
        ]
        calls = [
            call
            for delta in deltas
            for call in cast("Sequence[Json]", delta.get("tool_calls") or ())
        ]
        written = "".join(str(cast("Json", one["function"]).get("arguments")) for one in calls)
        names = [cast("Json", one["function"]).get("name") for one in calls]
        assert sum(bool(one) for one in names) == 1
        return written, read(got.text).done

    uncut, done = await call()
    assert done
    assert msgspec.json.decode(uncut)
    batches = stage.relay.seen
    for place in range(3, batches, max(1, batches // 12)):
        stage.relay.left = place
        assert await call() == (uncut, True)


async def test_tokens_are_resumed_on_mindies_interface(stage: Stage) -> None:
    body = {
        "input_id": [5, 6, 7],
        "stream": True,
        "parameters": {"details": True, "max_new_tokens": 40, "temperature": 1.2, "seed": 5},
    }

    async def ids() -> list[object]:
        async with httpx.AsyncClient(timeout=60) as client:
            path = "/v1/models/chat/infer_token"
            got = await client.post(stage.gateway.url + path, json=body)
        frames = [one[6:] for one in got.text.split("\n\n") if one.startswith("data: ")]
        return [msgspec.json.decode(one)["token"]["id"] for one in frames]

    uncut = await ids()
    batches = stage.relay.seen
    assert len(uncut) > 3
    for place in range(2, batches, max(1, batches // 10)):
        stage.relay.left = place
        assert await ids() == uncut


async def test_another_model_continues_the_text(stage: Stage) -> None:
    """It is another tokenizer: the text goes behind the prompt."""
    stage.relay.left = 3
    got = await ask(stage.gateway.url, model="other", max_tokens=100, messages=COUNTED)

    assert (got.error, got.comments) == ("", (": continued after upstream_lost",))


async def test_a_remote_backend_continues_an_engines_text(stage: Stage) -> None:
    stage.relay.left = 3
    got = await ask(stage.gateway.url, model="to-remote", temperature=0, messages=COUNTED)

    assert got.error == ""
    begun = beginning(stage.remote.requests[-1])
    assert begun
    assert got.text == begun + " and so on"


async def test_an_engine_continues_a_remote_backends_text(stage: Stage) -> None:
    messages = [{"role": "user", "content": "What is 17 + 25?"}]

    got = await ask(stage.gateway.url, model="from-remote", temperature=0, messages=messages)

    assert (got.text, got.error) == ("17 + 25 = 42.", "")


@pytest.mark.nightly
async def test_a_restarted_engine_resumes_its_own_answers(stage: Stage) -> None:
    uncut = await ask(stage.gateway.url, model="alone", **SAMPLED)
    stage.relay.left, stage.relay.seen = stage.relay.seen // 2, 0
    stage.relay.once = True

    got = await ask(stage.gateway.url, model="alone", **SAMPLED)

    assert (got.text, got.error) == (uncut.text, "")
    assert got.comments == (": continued after upstream_lost",)
