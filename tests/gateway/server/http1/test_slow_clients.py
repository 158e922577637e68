"""Timeouts of slow clients: sending a head, sending a body, reading the answer."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol

import pytest

from strowger_gateway.gateway.server.asgi.client_timeouts import LEAST_RATE, SlowClientReaper
from tests.gateway.by_hand import Client, connect, connect_narrow, head
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio

LIMIT_S = 0.5
LONGER_S = 0.8
"""Than the limit, with the look that comes after it."""

ROOM = 100_000
SERVER = (
    f"server: {{client_timeout_s: {LIMIT_S}, max_body_bytes: {ROOM}, max_buffered_bytes: {ROOM}}}"
)
ASKED = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
BODY = json.dumps(ASKED).encode()
STREAMED = json.dumps({**ASKED, "stream": True, "user": "much"}).encode()
WAITING = json.dumps({**ASKED, "stream": True, "user": "waits"}).encode()
Gateway = tuple[Serving, Provider]

SHAPES = {
    "/v1/chat/completions": "error",
    "/v1/embeddings": "error",
    "/infer_token": "error_type",
    "/serving-endpoints/chat/invocations": "error_code",
    "/v2/models/chat/infer": "error",
    "/v1/feedback": "error",
}
"""Error formats by path: a key that identifies the surface's format."""


class Waits:
    """Lets an answer go on."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def behave(self, request: Received, answer: Answer) -> None:
        match request.json.get("user"):
            case "much":
                await answer.begin_stream()
                for _ in range(64):
                    await answer.text("x" * 250_000)
                await answer.end_stream()
            case "waits":
                await answer.begin_stream()
                await answer.text("hel")
                await self.go_on.wait()
                await answer.end_stream()
            case _:
                await answers(request, answer)


@pytest.fixture(scope="module")
def waits() -> Waits:
    return Waits()


@pytest.fixture(scope="module")
async def gateway(
    anyio_backend: object, waits: Waits, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Gateway, None]:
    async with provider(waits.behave) as remote:
        patient = one_model(remote.base_url, SERVER)
        patient = patient.replace("between_tokens_s: 1", "between_tokens_s: 5")
        async with serving(patient, tmp_path_factory.mktemp("run")) as running:
            yield running, remote


class Dial(Protocol):
    async def __call__(self, how: Callable[[str], Awaitable[Client]] = connect) -> Client: ...


@pytest.fixture
async def dial(gateway: Gateway) -> AsyncGenerator[Dial, None]:
    """Connects to the gateway, until the test's end."""
    opened: list[Client] = []

    async def one(how: Callable[[str], Awaitable[Client]] = connect) -> Client:
        opened.append(await how(gateway[0].url))
        return opened[-1]

    yield one
    for client in opened:
        client.writer.close()


def whole(body: bytes = BODY, path: str = "/v1/chat/completions") -> bytes:
    return head(f"content-length: {len(body)}\r\n", path) + body


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110  no event to wait for
            await asyncio.sleep(0.01)


def free(running: Serving) -> bool:
    return running.state.admission.in_flight == 0


async def test_a_body_that_never_ends_is_refused_in_its_surfaces_error_format(
    gateway: Gateway, dial: Dial
) -> None:
    _, remote = gateway
    clients = [await dial() for _ in SHAPES]
    before = len(remote.requests)

    for client, path in zip(clients, SHAPES, strict=True):
        await client.say(head("content-length: 99\r\n", path) + b'{"mo', pause=0)
    reported = [await client.receives_all() for client in clients]
    closed = [await client.over() for client in clients]

    shapes = zip(reported, SHAPES.values(), strict=True)
    assert all(key in json.loads(body) for (_, _, body), key in shapes)
    assert [status for status, _, _ in reported] == [408] * len(SHAPES)
    assert all("connection: close" in lines for _, lines, _ in reported)
    assert closed == [True] * len(SHAPES)
    assert len(remote.requests) == before


async def test_what_was_refused_is_logged_and_gives_its_place_back(
    gateway: Gateway, dial: Dial
) -> None:
    running, _ = gateway
    client = await dial()

    await client.say(head("content-length: 60000\r\n"), b"[" * 50_000)
    held = running.state.admission.in_flight, running.state.shares.buffered
    status, _ = await client.receives()
    await until(lambda: free(running))
    line = running.access_lines()[-1]

    assert held == (1, 50_000)
    assert (running.state.admission.in_flight, running.state.shares.buffered) == (0, 0)
    assert (status, line.status, line.error) == (408, 408, "request_timeout")
    assert line.attempts == ()


async def test_a_body_that_drips_is_refused(dial: Dial) -> None:
    client = await dial()

    await client.say(head("transfer-encoding: chunked\r\n"), b"c8\r\n")
    dripping = asyncio.create_task(client.say(*[b"["] * 200, pause=0.05))
    status, _ = await client.receives()
    dripping.cancel()

    assert status == 408


async def test_a_large_body_over_a_slow_link_may_take_many_times_the_limit(dial: Dial) -> None:
    client = await dial()
    body = BODY + b" " * 10 * LEAST_RATE
    pieces = [body[at : at + 150] for at in range(0, len(body), 150)]
    began = asyncio.get_running_loop().time()

    await client.say(head(f"content-length: {len(body)}\r\n"), *pieces, pause=0.05)
    took = asyncio.get_running_loop().time() - began
    status, answered = await client.receives()

    assert took > 3 * LIMIT_S
    assert (status, b'"hello"' in answered) == (200, True)


async def test_a_head_that_is_not_whole_in_time_is_refused(dial: Dial) -> None:
    new, used, silent = [await dial() for _ in range(3)]
    await used.say(whole())
    await used.receives()

    await used.say(whole()[:40])
    await new.say(b"POST /v1/chat", b"/completions HTTP/1.1\r\nx: ")
    dripping = asyncio.create_task(new.say(*[b"a"] * 200, pause=0.05))
    reported = [await new.receives_all(), await used.receives_all()]
    dripping.cancel()

    assert [(status, body) for status, _, body in reported] == [(408, b"")] * 2
    assert all(any(one.startswith("date: ") for one in lines) for _, lines, _ in reported)
    assert [await one.over() for one in (new, used, silent)] == [True] * 3


async def test_a_connection_may_be_idle_between_requests(dial: Dial) -> None:
    client = await dial()
    found: list[int] = []

    for pause in (LONGER_S, 0.0):
        await client.say(whole())
        found.append((await client.receives())[0])
        await asyncio.sleep(pause)

    assert found == [200, 200]


async def test_a_connection_may_be_idle_after_a_refused_body_has_been_read_past(dial: Dial) -> None:
    client = await dial()
    refused = whole().replace(b"application/json", b"application/xml")

    await client.say(refused[:-20])
    status, _ = await client.receives()
    await client.say(refused[-20:])
    await asyncio.sleep(LONGER_S)
    await client.say(whole())

    assert status == 415
    assert (await client.receives())[0] == 200


async def test_a_body_behind_another_request_has_its_time_when_its_turn_comes(
    gateway: Gateway, dial: Dial, waits: Waits
) -> None:
    running, _ = gateway
    client = await dial()
    before = len(running.access_lines())

    await client.say(whole(WAITING), whole()[:-20])
    await asyncio.sleep(LONGER_S)
    waits.go_on.set()
    await client.say(whole()[-20:])
    await until(lambda: len(running.access_lines()) == before + 2)

    assert [line.status for line in running.access_lines()[-2:]] == [200, 200]


async def test_memory_is_claimed_as_pieces_come(gateway: Gateway, dial: Dial) -> None:
    running, _ = gateway
    first, second = await dial(), await dial()
    half = head("content-length: 90000\r\n"), b"[" * 60_000

    await first.say(*half)
    await second.say(*half)
    refused, lines, _ = await second.receives_all()
    first.writer.close()
    await until(lambda: free(running))

    assert (refused, "retry-after: 1" in lines) == (503, True)
    assert running.state.shares.buffered == 0


async def test_a_client_that_is_refused_while_it_sends_receives_the_reason(dial: Dial) -> None:
    client = await dial()
    large = 40 * ROOM

    await client.say(head(f"content-length: {large}\r\n"), b"x" * large)
    status, lines, _ = await client.receives_all()

    assert (status, "connection: close" in lines) == (413, True)
    assert await client.over()


async def test_a_large_unread_body_is_not_a_head(dial: Dial) -> None:
    """Its request was refused at its head, and the connection is good for the next one."""
    client = await dial()
    large = 40 * ROOM
    refused = head(f"content-length: {large}\r\n").replace(b"application/json", b"application/xml")

    await client.say(refused, b"x" * large, whole())
    found = [(await client.receives())[0] for _ in range(2)]

    assert found == [415, 200]


async def test_a_client_that_keeps_sending_after_that_is_cut(dial: Dial) -> None:
    client = await dial()

    await client.say(head("transfer-encoding: chunked\r\n"))
    with pytest.raises(ConnectionError):
        async with asyncio.timeout(120):
            await client.say(*[b"fff\r\n" + b"x" * 0xFFF + b"\r\n"] * 10_000, pause=0.005)


async def test_a_client_that_does_not_read_its_answer_is_left(gateway: Gateway, dial: Dial) -> None:
    running, remote = gateway
    client = await dial(connect_narrow)
    gone = remote.hung_up

    await client.say(whole(STREAMED))
    await until(lambda: remote.hung_up > gone and free(running))

    assert running.access_lines()[-1].status == 499


async def test_so_is_one_that_has_ended_its_side(gateway: Gateway, dial: Dial) -> None:
    """What it does not read would otherwise wait in memory for as long as the client likes."""
    running, remote = gateway
    client = await dial(connect_narrow)
    gone = remote.hung_up

    await client.say(whole(STREAMED))
    client.writer.write_eof()
    await until(lambda: remote.hung_up > gone and free(running))

    assert running.access_lines()[-1].status == 499


async def test_a_client_that_reads_slowly_is_not(gateway: Gateway, dial: Dial) -> None:
    running, _ = gateway
    client = await dial(connect_narrow)

    await client.say(whole(STREAMED))
    for _ in range(8):
        await client.takes(20_000)
        await asyncio.sleep(LIMIT_S / 4)
    under_way = running.state.admission.in_flight
    client.writer.close()
    await until(lambda: free(running))

    assert under_way == 1


async def test_another_limit_holds_immediately() -> None:
    limits = [60.0]
    seen: list[float] = []

    class Connection:
        def check_deadline(self, at: float, limit_s: float) -> None:
            seen.append(limit_s)

    watching = asyncio.create_task(SlowClientReaper([Connection()], lambda: limits[0]).watch())
    await asyncio.sleep(0)
    limits[0] = 0.1
    await until(lambda: bool(seen))
    watching.cancel()

    assert set(seen) == {0.1}
