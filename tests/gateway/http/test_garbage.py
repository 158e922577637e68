"""A request's memory is freed when it ends, without the garbage collector.

Between two of its rounds an outage lets hundreds of requests fail, and each of them has a body.
Recent requests do not keep values of unbounded length from clients.
"""

import asyncio
import gc
import tracemalloc
import types
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from strowger_gateway.gateway.experiments.mirror.process_side import MirrorsSide
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentStatus
from tests.gateway.experiments.recorded_gateway import config, stand
from tests.gateway.serving import one_model, serving
from tests.oracle.oracle import ORACLE
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

OURS = "strowger_gateway."
FOLDER = str(Path(__file__).parents[3] / "strowger_gateway")
DEAD = """
  - {name: dead, adapter: openai, base_url: "http://127.0.0.1:9/v1", api_key: k}
models:
  - name: elsewhere
    policy: in_order
    breaker: &never {min_requests: 1000}
    backends: [{provider: dead, model: m}, {provider: remote, model: m}]
  - name: hedged
    breaker: *never
    hedge_after_s: 0.01
    backends: [{provider: remote, model: a}, {provider: remote, model: b}]
  - name: mirrored
    breaker: *never
    backends: [{provider: remote, model: m}]
    mirror: {backend: dead/m, share: 1}
  - {name: nowhere, breaker: *never, retry: {attempts: 1}, backends: [{provider: dead, model: m}]}
"""


async def as_told(request: Received, answer: Answer) -> None:
    """What the request's user is called."""
    match request.json.get("user"):
        case "fails":
            await answer.json({"error": {"message": "boom"}}, 500)
        case "is late":
            await asyncio.sleep(0.03)
            await answer.chat()
        case "fails late":
            await asyncio.sleep(0.03)
            await answer.json({"error": {"message": "boom"}}, 500)
        case "busy":
            await answer.json({"error": {"message": "slow down"}}, 429)
        case "lies":
            await answer.body(b"{nonsense", "application/json")
        case "hangs up":
            raise ConnectionResetError
        case "breaks off":
            await answer.begin_stream()
            await answer.text("some")
            raise ConnectionResetError
        case "streams":
            await answer.begin_stream()
            await answer.text("all")
            await answer.end_stream()
        case _:
            await answer.chat()


@pytest.fixture(scope="module", autouse=True)
def small_heap() -> None:
    """Collections look at what the tests make, and not at two million objects from before."""
    gc.collect()
    gc.freeze()


@contextmanager
def left_to_the_collector() -> Generator[set[str]]:
    """What of ours only the collector frees; filled at the end."""
    found: set[str] = set()
    while gc.collect():  # a plan hides from the collector what an earlier test's gateway held by it
        pass
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        for one in gc.garbage:
            if isinstance(one, types.FrameType):
                if one.f_code.co_filename.startswith(FOLDER):
                    found.add(one.f_code.co_qualname)
            elif type(one).__module__.startswith(OURS):
                found.add(type(one).__qualname__)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


WAYS = (
    ("chat", "", 200),
    ("chat", "streams", 200),
    ("chat", "fails", 502),
    ("chat", "busy", 429),
    ("chat", "lies", 502),
    ("chat", "hangs up", 502),
    ("chat", "breaks off", 200),
    ("hedged", "is late", 200),
    ("hedged", "fails late", 502),
    ("mirrored", "", 200),
    ("nowhere", "", 502),
    ("elsewhere", "", 200),
    ("elsewhere", "streams", 200),
    ("unknown", "", 404),
)
"""The model asked for, how its backend behaves, and the status."""


async def test_however_a_request_ends_nothing_of_it_stays(tmp_path: Path) -> None:
    left: dict[tuple[str, str], set[str]] = {}
    async with provider(as_told) as remote, httpx.AsyncClient(timeout=60) as client:
        text = one_model(remote.base_url, model_more="    breaker: *never").replace(
            "models:\n", DEAD.lstrip("\n"), 1
        )
        async with serving(text, tmp_path) as gateway:
            for model, user, status in WAYS:
                body = {
                    "model": model,
                    "user": user,
                    "stream": user in ("streams", "breaks off"),
                    "messages": [{"role": "user", "content": "hi"}],
                }
                stayed: set[str] = set()
                for _ in range(2):  # what another test left, and ends only now, comes once
                    with left_to_the_collector() as found:
                        for _ in range(2):
                            url = f"{gateway.url}/v1/chat/completions"
                            assert (await client.post(url, json=body)).status_code == status
                        await gateway.state.side(MirrorsSide).copies.wait_idle()
                        gateway.state.log.flush()
                    stayed = found
                    if not stayed:
                        break
                if stayed:
                    left[model, user] = stayed

    assert left == {}


MANY, LONG = 60, 50_000


async def test_nothing_that_clients_may_make_long_is_kept_of_past_requests(tmp_path: Path) -> None:
    sent = {"messages": [{"role": "user", "content": "hi"}]}
    async with provider(as_told) as remote, httpx.AsyncClient(timeout=60) as client:
        text = config(remote.base_url).replace("header:x-session-id", "user")
        async with serving(text, tmp_path) as gateway:
            stand(gateway, ExperimentStatus(epoch=1))
            kept: list[int] = []
            for many in (2, MANY):
                gc.collect()
                tracemalloc.start()
                for number in range(many):
                    body = {**sent, "model": "chat", "user": f"{number}-{'x' * LONG}"}
                    await client.post(f"{gateway.url}/v1/chat/completions", json=body)
                remote.requests.clear()
                ORACLE.settle()
                gc.collect()
                kept.append(tracemalloc.get_traced_memory()[0])
                tracemalloc.stop()
            path = f"/serving-endpoints/{'x' * LONG}/invocations"
            refused = await client.post(f"{gateway.url}{path}", json={**sent, "model": "chat"})
            decisions = gateway.state.log.own_recent(MANY)

    assert refused.status_code == 400
    assert kept[1] < MANY * LONG / 4
    assert len(decisions) == MANY
    assert all(len(msgspec.json.encode(one)) < 2_000 for one in decisions)


async def drips(request: Received, answer: Answer) -> None:
    """Until its client leaves."""
    await answer.begin_stream()
    await answer.text("some")
    await answer.gone.wait()


@pytest.mark.parametrize("leaves", ["between requests", "within a stream"])
async def test_of_a_connection_that_is_over_nothing_stays(leaves: str, tmp_path: Path) -> None:
    streams = leaves == "within a stream"
    body = msgspec.json.encode(
        {"model": "chat", "stream": streams, "messages": [{"role": "user", "content": "hi"}]}
    )
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: [::1]\r\ncontent-type: application/json\r\n"
    )
    async with (
        provider(drips if streams else as_told) as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
    ):
        with left_to_the_collector() as found:
            port = int(gateway.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            await reader.readuntil(b"some" if streams else b"}")
            writer.close()
            await writer.wait_closed()
            del reader, writer
            for _ in range(500):
                if not gateway.state.admission.in_flight:
                    break
                await asyncio.sleep(0.01)
            gateway.state.log.flush()
            await asyncio.sleep(0.05)

    assert found == set()
