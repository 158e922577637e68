"""Connections: which are kept, and several requests on one, also before the first is answered."""

import gc
from functools import partial

import pytest

from strowger_gateway.gateway.server.http1.exchange import Exchange
from tests.gateway.server.http1.front import (
    BODY,
    HOT,
    INDEX,
    IS_LATE,
    READY,
    STREAM,
    WAITS,
    Front,
    get,
    in_chunks,
    post,
)
from tests.gateway.server.http1.wire import PROBE, Reply, chunked, cut

pytestmark = pytest.mark.anyio

ASKED = {
    "the gateway": partial(post, BODY),
    "the gateway for a stream": partial(post, STREAM),
    "Litestar": partial(get, "/v1/models"),
    "Litestar with a body": partial(post, READY, path=INDEX),
    "no route": partial(get, "/nowhere"),
}
WHOM = pytest.mark.parametrize("whom", ASKED)
KEPT = {
    "": True,
    "connection: keep-alive\r\n": True,
    "Connection: Keep-Alive\r\n": True,
    "connection: other\r\n": True,
    "connection: not-close\r\n": True,
    "connection:\r\n": True,
    "connection: close\r\n": False,
    "CONNECTION: CLOSE\r\n": False,
    "connection: keep-alive, close\r\n": False,
    "connection: close, keep-alive\r\n": False,
    "connection: other\r\nconnection: close\r\n": False,
}


@WHOM
@pytest.mark.parametrize("fields", KEPT)
async def test_a_connection_is_kept_unless_the_client_says_close(
    front: Front, whom: str, fields: str
) -> None:
    _, kept = await front.outcome(ASKED[whom](fields=fields))

    assert kept == KEPT[fields]


@pytest.mark.parametrize("whom", [one for one in ASKED if "stream" not in one])
@pytest.mark.parametrize("fields", KEPT)
async def test_a_client_of_http_1_0_is_answered_and_learns_whether_the_connection_is_kept(
    front: Front, whom: str, fields: str
) -> None:
    wire = await front.dial()

    await wire.send(ASKED[whom](fields=fields, version="1.0"))
    reply = await wire.reply()

    assert reply.status == (404 if whom == "no route" else 200)
    assert reply.framing == "length"
    if reply["connection"] == "keep-alive":
        assert fields.lower() == "connection: keep-alive\r\n"
        assert await wire.kept()
    else:
        assert await wire.ended()


async def test_a_stream_to_a_client_of_http_1_0_ends_with_the_connection(front: Front) -> None:
    wire = await front.dial()

    await wire.send(post(STREAM, version="1.0"))
    answer = await wire.rest()

    assert answer.startswith(b"HTTP/1.1 200")
    assert b"\r\nconnection: close\r\n" in answer.lower()
    assert b"data: [DONE]\n\n" in answer


WRONG = {
    "an unknown path": (get("/nowhere"), 404),
    "a method that is not allowed": (get(HOT), 405),
    "a method that is not allowed there": (post(path="/v1/models"), 405),
    "a body that is not JSON": (post(b"{"), 400),
    "a body that is not JSON, to Litestar": (post(b"{", path=INDEX), 400),
    "an unknown model": (post(BODY.replace(b'"chat"', b'"none"')), 404),
    "a type that is not accepted": (post().replace(b"application/json", b"application/xml"), 415),
    "no permission": (get("/admin/requests"), 401),
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_mistake_within_a_request_costs_no_connection(front: Front, what: str) -> None:
    request, status = WRONG[what]
    wire = await front.dial()

    for _ in range(3):
        await wire.send(request)
        assert (await wire.reply()).status == status

    assert await wire.kept()


def mixed(count: int) -> tuple[bytes, list[tuple[int, str]]]:
    """So many requests of all kinds, and the status and id of each answer."""
    kinds = (
        (partial(post, BODY), 200),
        (partial(get, "/v1/models"), 200),
        (partial(in_chunks, chunked(BODY[:7], BODY[7:])), 200),
        (partial(post, b"{}"), 400),
        (partial(post, STREAM), 200),
        (partial(get, "/nowhere"), 404),
        (partial(post, READY, path=INDEX), 200),
        (partial(get, "/v1/models", method="PUT"), 405),
        (partial(in_chunks, chunked(READY), path=INDEX), 200),
    )
    picked = [kinds[one % len(kinds)] for one in range(count)]
    asked = [kind(fields=f"x-request-id: n{one}\r\n") for one, (kind, _) in enumerate(picked)]
    return b"".join(asked), [(status, f"n{one}") for one, (_, status) in enumerate(picked)]


def of(replies: list[Reply]) -> list[tuple[int, str]]:
    return [(reply.status, reply["x-request-id"]) for reply in replies]


@pytest.mark.parametrize("size", [0, 1_000, 97], ids=["in one write", "in some", "in many"])
@pytest.mark.parametrize("count", [2, 5, 20, 200])
async def test_requests_that_arrive_together_are_answered_in_their_order(
    front: Front, count: int, size: int
) -> None:
    asked, expected = mixed(count)
    wire = await front.dial()

    await wire.send(*(cut(asked, *range(size, len(asked), size)) if size else [asked]))

    assert of(await wire.replies(count)) == expected
    assert await wire.kept()


@pytest.mark.parametrize("first", [WAITS, IS_LATE], ids=["a stream", "a whole answer"])
@pytest.mark.parametrize("count", [1, 4, 20])
async def test_what_is_behind_a_slow_answer_waits_for_its_end(
    front: Front, first: bytes, count: int
) -> None:
    asked, expected = mixed(count)
    wire = await front.dial()

    await wire.send(post(first, "x-request-id: slow\r\n"), asked)
    await front.remote.until(lambda: len(front.remote.requests) == 1)
    if first == WAITS:
        await wire.until(b"hel")
        await wire.until(b"\n\n\r\n")
    assert await wire.silent()
    assert len(front.remote.requests) == 1
    front.go_on.set()
    if first == WAITS:
        await wire.until(b"[DONE]\n\n\r\n0\r\n\r\n")
    else:
        assert of([await wire.reply()]) == [(200, "slow")]

    assert of(await wire.replies(count)) == expected
    assert await wire.kept()


AFTER = {
    "a request": PROBE,
    "many requests": PROBE * 20,
    "garbage": b"\0garbage" * 9_000,
    "an empty line": b"\r\n",
}


@WHOM
@pytest.mark.parametrize("what", AFTER)
async def test_what_comes_with_a_last_request_is_ignored(
    front: Front, whom: str, what: str
) -> None:
    last = ASKED[whom](fields="connection: close\r\n")
    wire = await front.dial()

    await wire.send(PROBE, last + AFTER[what])
    replies = await wire.replies(2)

    assert [one["connection"] for one in replies] == ["", "close"]
    assert await wire.ended()


@WHOM
async def test_garbage_behind_a_request_costs_the_connection_and_no_answer(
    front: Front, whom: str
) -> None:
    """Whether the garbage has an answer of its own depends on when it arrives."""
    wire = await front.dial()

    await wire.send(PROBE + ASKED[whom](fields="x-request-id: mine\r\n") + b"\0garbage")
    replies = await wire.replies(2)

    assert replies[1]["x-request-id"] == "mine"
    assert (await wire.rest())[:12] in (b"", b"HTTP/1.1 400")


@WHOM
async def test_garbage_between_requests_is_refused(front: Front, whom: str) -> None:
    wire = await front.dial()

    await wire.send(ASKED[whom](fields=""))
    await wire.reply()
    await wire.send(b"\0garbage" + PROBE)

    assert (await wire.reply()).status == 400
    assert await wire.ended()


async def test_a_connection_takes_hundreds_of_requests(front: Front) -> None:
    wire = await front.dial()
    found: list[tuple[int, str]] = []
    for _ in range(10):
        asked, expected = mixed(9)
        await wire.send(asked)
        found += of(await wire.replies(9))
        assert found[-9:] == expected

    assert await wire.kept()


async def test_connections_do_not_wait_for_each_other(front: Front) -> None:
    slow = [await front.dial() for _ in range(20)]
    for wire in slow:
        await wire.send(post(IS_LATE))
    await front.remote.until(lambda: len(front.remote.requests) == 20)

    quick = await front.outcome(post(STREAM))
    front.go_on.set()

    assert quick == (200, True)
    assert [(await wire.reply()).status for wire in slow] == [200] * 20


async def test_thousands_of_requests_in_one_piece_are_parsed_as_earlier_ones_are_answered(
    front: Front,
) -> None:
    """They are neither in memory together, nor parsed at the same moment, which delays others."""
    count = 1500
    wire, other = await front.dial(), await front.dial()

    await wire.send(b"".join(get(f"/nowhere-{n}") for n in range(count)))
    first = await wire.reply()
    parsed = sum(issubclass(type(one), Exchange) for one in gc.get_objects())
    await other.send(PROBE)
    probed = await other.reply()
    rest = await wire.replies(count - 1)

    assert probed.status == 200
    assert parsed < 100
    for n, reply in enumerate([first, *rest]):
        assert f"/nowhere-{n};".encode() in reply.body.replace(b'"', b";").replace(b"?", b";")
    assert await wire.kept()


@pytest.mark.parametrize("end", [b"\x00garbage\r\n\r\n", post(BODY)[:-5]])
async def test_what_ends_many_requests_in_one_piece_comes_after_them(
    front: Front, end: bytes
) -> None:
    wire = await front.dial()

    await wire.send(get("/nowhere") * 60 + end)
    replies = await wire.replies(60)
    if end.startswith(b"POST"):
        await wire.send(post(BODY)[-5:])

    assert {reply.status for reply in replies} == {404}
    assert (await wire.reply()).status == (200 if end.startswith(b"POST") else 400)


async def test_a_client_that_leaves_many_requests_behind_leaves_nothing_in_the_gateway(
    front: Front,
) -> None:
    wire = await front.dial()

    await wire.send(post(IS_LATE) + get("/nowhere") * 1000)
    wire.reset()
    front.go_on.set()

    await front.until_idle()
