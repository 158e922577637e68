"""`expect: 100-continue`: a client that waits for a word before it sends its body."""

import pytest

from tests.gateway.server.http1.front import (
    BODIES,
    BODY,
    FEEDBACK,
    HOT,
    INDEX,
    ROOM,
    WAITS,
    Front,
    get,
    in_chunks,
    post,
)
from tests.gateway.server.http1.wire import PROBE, chunked, cut

pytestmark = pytest.mark.anyio

EXPECTS = "expect: 100-continue\r\n"
PATHS = pytest.mark.parametrize("path", BODIES)


def parted(request: bytes) -> list[bytes]:
    """The head, and what follows it."""
    return cut(request, request.index(b"\r\n\r\n") + 4)


@PATHS
@pytest.mark.parametrize(
    "expects",
    [
        EXPECTS,
        "Expect: 100-Continue\r\n",
        "expect: 100-continue \t \r\n",
        EXPECTS + "connection: close\r\n",
    ],
)
@pytest.mark.parametrize("how", ["by length", "in chunks"])
async def test_a_client_that_waits_is_asked_for_its_body_once(
    front: Front, path: str, how: str, expects: str
) -> None:
    whole = post(BODIES[path], expects, path)
    head, body = parted(whole if how == "by length" else chunks_to(path, expects))
    wire = await front.dial()

    await wire.send(head)
    interim = await wire.reply()
    assert await wire.silent()
    await wire.send(*cut(body, 3, 9))
    final = await wire.reply()

    assert (interim.status, interim.lines, final.status) == (100, (), 200)
    assert await (wire.ended() if "close" in expects else wire.kept())
    assert len(front.remote.requests) == (path == HOT)


def chunks_to(path: str, fields: str) -> bytes:
    body = BODIES[path]
    return in_chunks(chunked(body[:4], body[4:]), fields, path)


@PATHS
async def test_a_head_that_is_not_whole_asks_for_no_body(front: Front, path: str) -> None:
    head, body = parted(post(BODIES[path], EXPECTS, path))
    wire = await front.dial()

    await wire.send(head[:-2])
    assert await wire.silent()
    await wire.send(head[-2:])
    assert (await wire.reply()).status == 100
    await wire.send(body)

    assert (await wire.reply()).status == 200


@PATHS
async def test_a_client_that_sends_its_body_without_waiting_is_answered(
    front: Front, path: str
) -> None:
    wire = await front.dial()

    for _ in range(3):
        await wire.send(post(BODIES[path], EXPECTS, path))
        reply = await wire.reply()
        if reply.status == 100:
            reply = await wire.reply()
        assert reply.status == 200

    assert await wire.kept()


@PATHS
async def test_a_client_that_does_not_wait_is_not_asked(front: Front, path: str) -> None:
    head, body = parted(post(BODIES[path], path=path))
    wire = await front.dial()

    await wire.send(head)
    assert await wire.silent()
    await wire.send(body)

    assert (await wire.reply()).status == 200


REFUSED = {
    "for its size": (post(b"", f"content-length: {ROOM + 1}\r\n{EXPECTS}", length=False), 413),
    "for its size, by Litestar": (
        post(b"", f"content-length: {ROOM + 1}\r\n{EXPECTS}", FEEDBACK, length=False),
        413,
    ),
    "for its type": (
        parted(post(BODY, EXPECTS))[0].replace(b"application/json", b"application/xml"),
        415,
    ),
    "for its coding": (parted(post(BODY, EXPECTS + "content-encoding: br\r\n"))[0], 415),
    "for its method": (parted(post(BODY, EXPECTS).replace(b"POST", b"PUT", 1))[0], 405),
    "for its path": (parted(post(BODY, EXPECTS, "/nowhere"))[0], 404),
    "for its host": (parted(post(BODY, EXPECTS).replace(b"localhost", b"x.example", 1))[0], 403),
    "for its target": (parted(post(BODY, EXPECTS, "ftp://localhost/"))[0], 400),
    "for its length": (post(b"", f"content-length: x\r\n{EXPECTS}", length=False), 400),
}


@pytest.mark.parametrize("why", REFUSED)
async def test_a_request_that_is_refused_by_its_head_asks_for_no_body(
    front: Front, why: str
) -> None:
    head, status = REFUSED[why]
    wire = await front.dial()

    await wire.send(head)

    assert (await wire.reply()).status == status


ANSWERED_UNREAD = {
    "refused": (
        parted(post(BODY, EXPECTS).replace(b"application/json", b"application/xml"))[0],
        415,
    ),
    "refused by Litestar": (parted(post(BODY, EXPECTS, "/nowhere"))[0], 404),
    "refused, in chunks": (in_chunks(b"", EXPECTS, "/nowhere"), 404),
    "not read": (get(fields=f"content-length: {len(PROBE)}\r\n{EXPECTS}"), 200),
}


@pytest.mark.parametrize("what", ["the body", "the next request"])
@pytest.mark.parametrize("why", ANSWERED_UNREAD)
async def test_what_comes_after_an_answer_instead_of_100_is_neither_body_nor_request(
    front: Front, why: str, what: str
) -> None:
    """Whether the client sends its body after such an answer is up to the client."""
    head, status = ANSWERED_UNREAD[why]
    wire = await front.dial()

    await wire.send(head)
    reply = await wire.reply()
    await wire.send(BODY if what == "the body" else PROBE)

    assert (reply.status, reply["connection"]) == (status, "close")
    assert await wire.ended()


@PATHS
async def test_a_refused_client_that_did_not_wait_keeps_its_connection(
    front: Front, path: str
) -> None:
    request = post(b"{", EXPECTS, path)

    assert await front.outcome(request) == (400, True)


@PATHS
@pytest.mark.parametrize("how", ["by length", "in chunks"])
async def test_a_client_of_http_1_0_is_never_asked(front: Front, path: str, how: str) -> None:
    whole = post(BODIES[path], EXPECTS, path) if how == "by length" else chunks_to(path, EXPECTS)
    head, body = parted(whole.replace(b"HTTP/1.1", b"HTTP/1.0", 1))
    wire = await front.dial()

    await wire.send(head)
    assert await wire.silent()
    await wire.send(body)

    assert (await wire.reply()).status == 200
    assert await wire.ended()


@pytest.mark.parametrize(("path", "status"), [(HOT, 400), (INDEX, 200)])
async def test_a_body_without_bytes_is_not_asked_for(front: Front, path: str, status: int) -> None:
    assert await front.outcome(post(b"", EXPECTS, path)) == (status, True)


async def test_a_request_behind_another_is_asked_for_its_body_in_its_turn(front: Front) -> None:
    head, body = parted(post(BODY, EXPECTS))
    wire = await front.dial()

    await wire.send(post(WAITS) + head)
    await wire.until(b"hel")
    await wire.until(b"\n\n\r\n")
    assert await wire.silent()
    front.go_on.set()
    await wire.until(b"[DONE]\n\n\r\n0\r\n\r\n")
    assert (await wire.reply()).status == 100
    await wire.send(body)

    assert (await wire.reply()).status == 200
    assert await wire.kept()


@pytest.mark.parametrize("target", ["/v1/models", "/nowhere"])
async def test_a_request_without_a_body_has_none_to_ask_for(front: Front, target: str) -> None:
    wire = await front.dial()

    await wire.send(get(target, EXPECTS))

    assert (await wire.reply()).status in (200, 404)
    assert await wire.kept()


async def test_another_expectation_is_ignored(front: Front) -> None:
    assert await front.outcome(post(fields="expect: payment\r\n")) == (200, True)


async def test_a_client_that_leaves_instead_of_sending_its_body_leaves_nothing(
    front: Front,
) -> None:
    wire = await front.dial()

    await wire.send(parted(post(BODY, EXPECTS))[0])
    assert (await wire.reply()).status == 100
    wire.close()
    await front.until_idle()

    assert not front.remote.requests
    assert front.running.access_lines()[-1].status == 499
