"""HTTP parsing limits: trailers, chunk extensions, Host, targets, half-closed connections."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator

import pytest

from tests.gateway.by_hand import connect, head
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio

KEYS = "auth: {mode: keys, keys: [{name: team, key: a-long-client-key}]}"
KEY = "authorization: Bearer a-long-client-key\r\n"
BODY = json.dumps({"model": "chat", "messages": [{"role": "user", "content": "hi"}]}).encode()
WAITING = json.dumps({**json.loads(BODY), "stream": True, "user": "waits"}).encode()
CHUNKED = "transfer-encoding: chunked\r\n"
CHUNK = b"%x\r\n%b\r\n" % (len(BODY), BODY)
MIB = 1024 * 1024
Gateway = tuple[Serving, Provider]


class Waits:
    """Lets an answer go on."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def behave(self, request: Received, answer: Answer) -> None:
        if request.json.get("user") == "waits":
            await answer.begin_stream()
            await answer.text("hel")
            await self.go_on.wait()
            await answer.text("lo")
            await answer.end_stream()
        else:
            await answers(request, answer)


@pytest.fixture(scope="module")
def once() -> Waits:
    return Waits()


@pytest.fixture
def waits(once: Waits) -> Waits:
    once.go_on = asyncio.Event()
    return once


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture(scope="module")
async def gateway(
    anyio_backend: object, once: Waits, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Gateway, None]:
    async with provider(once.behave) as remote:
        config = one_model(remote.base_url, KEYS).replace("tokens_s: 1", "tokens_s: 5")
        async with serving(config, tmp_path_factory.mktemp("run")) as running:
            yield running, remote


def post(body: bytes, more: str = KEY) -> bytes:
    return head(f"content-length: {len(body)}\r\n{more}") + body


async def flood(url: str, *, begin: bytes, piece: bytes, pieces: int) -> tuple[bytes, int]:
    """What comes back, and how many bytes went out, before the other side had enough."""
    reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
    sent = 0
    writer.write(begin)
    try:
        for _ in range(pieces):
            writer.write(piece)
            await asyncio.wait_for(writer.drain(), 30)
            sent += len(piece)
            await asyncio.sleep(0)
        writer.write_eof()
    except (ConnectionError, BrokenPipeError):
        pass
    try:
        reported = await asyncio.wait_for(reader.read(), 30)
    except ConnectionError:
        reported = b""
    writer.close()
    return reported, sent


TRAILERS = {
    "many": (b"", b"a:b\r\n" * 13_000),
    "one endless value": (b"a: ", b"b" * 65_536),
    "one endless name": (b"", b"b" * 65_536),
    "an endless extension": (b"", b""),
}


@pytest.mark.parametrize("key", ["", KEY], ids=["without a key", "with a key"])
@pytest.mark.parametrize("how", TRAILERS)
async def test_what_follows_a_body_is_limited_and_not_kept(
    gateway: Gateway, how: str, key: str
) -> None:
    running, remote = gateway
    first, piece = TRAILERS[how]
    begin = head(CHUNKED + key) + CHUNK + b"0\r\n" + first
    if not piece:
        begin, piece = head(CHUNKED + key) + b"1;", b"e" * 65_536
    before, asked = time.process_time(), len(remote.requests)

    reported, _ = await flood(running.url, begin=begin, piece=piece, pieces=16 * 60)

    statuses = [line[9:12] for line in reported.split(b"\r\n") if line.startswith(b"HTTP/1.1")]
    assert statuses == [b"431"]
    assert running.state.admission.in_flight == running.state.shares.buffered == 0
    assert len(remote.requests) == asked
    assert time.process_time() - before < 20


async def test_a_trailer_never_blocks_the_loop(gateway: Gateway) -> None:
    running, _ = gateway
    late = 0.0

    async def watch() -> None:
        nonlocal late
        while True:
            at = time.thread_time()
            await asyncio.sleep(0.005)
            late = max(late, time.thread_time() - at)

    watching = asyncio.create_task(watch())
    begin = head(CHUNKED) + CHUNK + b"0\r\na: "
    await flood(running.url, begin=begin, piece=b"b" * MIB, pieces=60)
    watching.cancel()

    assert late < 2.5


@pytest.mark.parametrize("apart", [False, True], ids=["in one packet", "apart"])
async def test_a_key_in_a_trailer_opens_nothing(gateway: Gateway, apart: bool) -> None:
    client = await connect(gateway[0].url)
    first, last = head(CHUNKED) + CHUNK, b"0\r\n" + KEY.encode() + b"\r\n"

    await client.say(*((first, last) if apart else (first + last,)))

    assert (await client.receives())[0] == 401
    client.writer.close()


async def test_trailers_within_bounds_are_read_past(gateway: Gateway) -> None:
    client = await connect(gateway[0].url)
    request = head(CHUNKED + KEY) + CHUNK + b"0\r\nx-checksum: 1\r\nexpect: 100-continue\r\n\r\n"

    await client.say(request[:-20], request[-20:])
    first = await client.receives()
    await client.say(request + request)
    found = [first, await client.receives(), await client.receives()]
    client.writer.close()

    assert [status for status, _ in found] == [200, 200, 200]


async def test_a_body_in_the_smallest_chunks_is_taken(gateway: Gateway) -> None:
    client = await connect(gateway[0].url)
    body = BODY.replace(b'"hi"', b'"%b"' % (b"h" * 30_000))
    chunks = b"".join(b"1\r\n%c\r\n" % one for one in body)

    await client.say(head(CHUNKED + KEY) + chunks + b"0\r\n\r\n", pause=0)

    assert (await client.receives())[0] == 200
    client.writer.close()


async def test_extensions_may_not_outweigh_a_body(gateway: Gateway) -> None:
    piece = (b"1;" + b"e" * 30_000 + b"\r\n \r\n") * 10

    reported, sent = await flood(gateway[0].url, begin=head(CHUNKED + KEY), piece=piece, pieces=200)

    assert reported.startswith(b"HTTP/1.1 431") or (reported == b"" and sent < 200 * len(piece))


async def test_a_head_that_comes_while_another_request_is_answered_is_bounded(
    gateway: Gateway, waits: Waits
) -> None:
    running, _ = gateway
    client = await connect(running.url)

    await client.say(post(WAITING) + b"GET /healthz HTTP/1.1\r\nhost: x\r\nx: ")
    await client.say(*[b"a" * 65_536] * 8, pause=0)
    waits.go_on.set()
    reported = await asyncio.wait_for(client._reader.read(), 30)  # pyright: ignore[reportPrivateUsage]
    client.writer.close()

    assert reported.startswith(b"HTTP/1.1 200")
    assert b"lo" in reported
    answer, _, refusal = reported.partition(b"\r\n0\r\n\r\n")
    assert b"connection: close" not in answer
    assert refusal.startswith(b"HTTP/1.1 431 ")
    assert b"connection: close" in refusal


async def test_garbage_behind_a_request_gets_its_own_answer_after_the_other_one(
    gateway: Gateway, waits: Waits
) -> None:
    client = await connect(gateway[0].url)

    await client.say(post(WAITING), b"\x00garbage\r\n\r\n")
    waits.go_on.set()
    reported = await asyncio.wait_for(client._reader.read(), 30)  # pyright: ignore[reportPrivateUsage]
    client.writer.close()

    assert reported.startswith(b"HTTP/1.1 200")
    answer, _, refusal = reported.partition(b"\r\n0\r\n\r\n")
    assert b"Invalid" not in answer
    assert refusal.startswith(b"HTTP/1.1 400 ")
    assert refusal.endswith(b"\r\n\r\nInvalid HTTP request received.")


async def test_a_body_that_cannot_be_read_is_one_400_and_no_traceback(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    running, _ = gateway
    loop = asyncio.get_running_loop()
    faults: list[object] = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    wrong = CHUNKED + "\r\nZZ\r\n"
    requests = [
        f"POST /nowhere HTTP/1.1\r\nhost: x\r\n{wrong}".encode(),
        head(CHUNKED + KEY) + b"ZZ\r\n",
        head(CHUNKED) + b"ZZ\r\n",
    ]
    found: list[int] = []

    with caplog.at_level(logging.WARNING):
        for request in requests:
            client = await connect(running.url)
            await client.say(request)
            found.append((await client.receives())[0])
            assert await client.over()

    assert found == [400, 400, 400]
    assert not faults
    assert not caplog.records
    assert running.state.admission.in_flight == 0


HOSTS = {
    "none": (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
    "none in HTTP/1.0": (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
    "two": (b"GET /healthz HTTP/1.1\r\nhost: x\r\nhost: x\r\n\r\n", 400),
    "two in HTTP/1.0": (b"GET /healthz HTTP/1.0\r\nhost: x\r\nhost: x\r\n\r\n", 400),
    "empty": (b"GET /healthz HTTP/1.1\r\nhost:\r\n\r\n", 200),
    "a path": (b"GET /healthz HTTP/1.1\r\nhost: x/y\r\n\r\n", 400),
    "a user": (b"GET /healthz HTTP/1.1\r\nhost: u@x\r\n\r\n", 400),
    "a blank": (b"GET /healthz HTTP/1.1\r\nhost: x y\r\n\r\n", 400),
    "a wrong port": (b"GET /healthz HTTP/1.1\r\nhost: x:http\r\n\r\n", 400),
    "IPv6": (b"GET /healthz HTTP/1.1\r\nhost: [::1]:8080\r\n\r\n", 200),
    "a star": (b"GET * HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "absolute": (b"GET http://y:80/healthz HTTP/1.1\r\nhost: x\r\n\r\n", 200),
    "absolute without a path": (b"GET http://y HTTP/1.1\r\nhost: x\r\n\r\n", 200),
    "absolute without a host": (b"GET http:///healthz HTTP/1.1\r\nhost: x\r\n\r\n", 400),
}


@pytest.mark.parametrize("how", HOSTS)
async def test_host_and_target_are_as_http_1_1_requires(gateway: Gateway, how: str) -> None:
    request, status = HOSTS[how]
    client = await connect(gateway[0].url)

    await client.say(request)
    answered = (await client.receives())[0]
    client.writer.close()

    assert answered == status


@pytest.mark.parametrize("target", ["/healthz", "/v1/models", "/nowhere"])
async def test_a_client_that_has_ended_its_side_is_answered(gateway: Gateway, target: str) -> None:
    for _ in range(5):
        client = await connect(gateway[0].url)
        client.writer.write(f"GET {target} HTTP/1.1\r\nhost: x\r\n{KEY}\r\n".encode())
        client.writer.write_eof()

        assert (await client.receives())[0] == (404 if target == "/nowhere" else 200)
        assert await client.over()


async def test_an_ended_side_still_counts_as_gone_where_the_answer_takes_long(
    gateway: Gateway, waits: Waits
) -> None:
    running, remote = gateway
    client = await connect(running.url)
    waits.go_on.clear()
    gone = remote.hung_up
    client.writer.write(post(WAITING))
    client.writer.write_eof()

    assert (await client.receives())[0] == 200
    await remote.until(lambda: remote.hung_up > gone, 2.0)

    client.writer.close()
    assert running.state.admission.in_flight == 0
