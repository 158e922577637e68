"""Flow: what a client does not read is not fetched, what is not yet its turn is not read."""

import asyncio
import json
from contextlib import suppress

import pytest

from tests.gateway.server.http1.front import (
    BODY,
    FEEDBACK,
    INDEX,
    IS_LATE,
    IS_LONG,
    LONG,
    NEVER_ENDS,
    PIECE,
    ROOM,
    Front,
    get,
    in_chunks,
    post,
)
from tests.gateway.server.http1.wire import PROBE, chunked

pytestmark = pytest.mark.anyio


@pytest.fixture(
    scope="module",
    params=[pytest.param(False, marks=pytest.mark.nightly), True],
    ids=["asyncio", "uvloop"],
)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


IN_FLIGHT = 24_000_000
"""What the buffers of the system and of three programs take between the provider and a client."""


async def settled(front: Front) -> int:
    """What the provider has sent, once it sends no more, or more than any buffer holds."""
    most, before = front.pieces + 2 * IN_FLIGHT // PIECE, -1
    while before != front.pieces < most:
        before = front.pieces
        await asyncio.sleep(0.1)
    return front.pieces * PIECE


async def test_a_stream_that_is_not_read_is_not_fetched_and_goes_on_when_it_is(
    front: Front,
) -> None:
    wire = await front.dial(narrow=True)

    await wire.send(post(NEVER_ENDS))
    await wire.until(b"xxx")
    first = await settled(front)
    for _ in range(first // PIECE + 20):
        await wire.take(PIECE)
    later = await settled(front)

    assert 0 < first < IN_FLIGHT
    assert first < later < first + IN_FLIGHT


async def test_a_client_that_does_not_read_delays_no_other(front: Front) -> None:
    wire = await front.dial(narrow=True)

    await wire.send(post(NEVER_ENDS))
    await settled(front)

    for target in ("/v1/models", "/metrics"):
        assert await front.outcome(get(target)) == (200, True)
    assert await front.outcome(post()) == (200, True)


async def stuffed(front: Front, first: bytes, more: bytes) -> int:
    """How much of `more` goes, again and again, behind a first request that has no answer."""
    wire = await front.dial()
    sent = 0
    await wire.send(post(first))
    with suppress(TimeoutError):
        while sent < 4 * IN_FLIGHT:
            await asyncio.wait_for(wire.send(more), 0.2)
            sent += len(more)
    return sent


LARGE = 99_000
BEHIND = {
    "requests": PROBE * 10_000,
    "requests with bodies": post(b" " * LARGE, path=INDEX) * 10,
    "requests to the gateway with bodies": post(b" " * LARGE) * 10,
    "one long body": post(b"", "content-length: 999999999\r\n", INDEX, length=False) + b" " * LARGE,
    "one long body of empty lines": post(b"", "content-length: 999999999\r\n", INDEX, length=False)
    + b"\r\n\r\n" * (LARGE // 4),
    "many chunks": in_chunks(chunked(b" " * LARGE, b" " * LARGE)[:-5], path=INDEX),
}


@pytest.mark.parametrize("what", BEHIND)
async def test_what_comes_behind_a_request_that_waits_is_not_read_without_limit(
    front: Front, what: str
) -> None:
    first = BEHIND[what]

    assert await stuffed(front, IS_LATE, first) < IN_FLIGHT


async def test_requests_that_waited_unread_are_all_answered(front: Front) -> None:
    wire = await front.dial()
    count = 500

    await wire.send(post(IS_LATE), PROBE * count)
    await front.remote.until(lambda: len(front.remote.requests) == 1)
    front.go_on.set()
    replies = await wire.replies(count + 1)

    assert {one.status for one in replies} == {200}
    assert await wire.kept()


def sized(size: int) -> bytes:
    """A body of so many bytes."""
    return BODY + b" " * (size - len(BODY))


LIMITS = {
    "as long as allowed": (post(sized(ROOM)), (200, True)),
    "as long as allowed, in chunks": (in_chunks(chunked(sized(ROOM))), (200, True)),
    "as long as allowed, in many chunks": (
        in_chunks(chunked(sized(ROOM)[:50_000], *([b" " * 500] * 100))),
        (200, True),
    ),
    "a byte longer": (post(sized(ROOM + 1)), (413, False)),
    "a byte longer, in chunks": (in_chunks(chunked(sized(ROOM), b" ")), (413, False)),
    "a byte longer, in one chunk": (in_chunks(chunked(sized(ROOM + 1))), (413, False)),
    "with a chunk of unlikely length": (
        in_chunks(b"7fffffffffffffff\r\n" + b" " * ROOM + b" "),
        (413, False),
    ),
    "with an unlikely length": (
        post(b"", f"content-length: {(1 << 63) - 1}\r\n", length=False),
        (413, False),
    ),
}


@pytest.mark.parametrize("what", LIMITS)
async def test_a_body_may_be_as_long_as_the_gateway_says(front: Front, what: str) -> None:
    request, outcome = LIMITS[what]

    assert await front.outcome(request) == outcome
    await front.until_idle()
    assert len(front.remote.requests) == (outcome[0] == 200)


async def test_a_body_in_chunks_that_is_too_long_is_refused_while_it_is_sent(
    front: Front,
) -> None:
    wire = await front.dial()
    chunk = b"2000\r\n" + b" " * 0x2000 + b"\r\n"

    await wire.send(in_chunks(b""), *[chunk] * 500, b"0\r\n\r\n")
    reply = await wire.reply()

    assert (reply.status, reply["connection"]) == (413, "close")
    assert json.loads(reply.body)["error"]["code"]
    assert await wire.ended()


async def test_a_length_that_is_too_long_is_refused_before_anything_is_sent(front: Front) -> None:
    wire = await front.dial()

    await wire.send(post(b"", f"content-length: {ROOM + 1}\r\n", length=False))

    assert (await wire.reply()).status == 413


@pytest.mark.parametrize("coded", [False, True], ids=["by length", "in chunks"])
async def test_litestar_refuses_a_body_that_is_too_long_for_its_route(
    front: Front, coded: bool
) -> None:
    long = b" " * ROOM
    request = in_chunks(chunked(long), path=FEEDBACK) if coded else post(long, path=FEEDBACK)

    assert (await front.outcome(request))[0] == 413


@pytest.mark.parametrize("narrow", [False, True], ids=["quickly", "in small pieces"])
async def test_a_long_answer_arrives_whole_however_it_is_read(front: Front, narrow: bool) -> None:
    wire = await front.dial(narrow=narrow)

    await wire.send(post(IS_LONG), PROBE)
    await asyncio.sleep(0.1)
    reply = await wire.reply()

    assert reply.framing == "length"
    assert json.loads(reply.body)["choices"][0]["message"]["content"] == LONG
    assert (await wire.reply()).status == 200
    assert await wire.kept()
