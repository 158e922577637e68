"""Other protocols: offers within a request, which are ignored, and their bytes on the port."""

import json

import pytest

from tests.gateway.server.http1.front import BODIES, CHAT, HOT, Front, get, in_chunks, post
from tests.gateway.server.http1.wire import PROBE, chunked

pytestmark = pytest.mark.anyio

SOCKET = (
    "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
HTTP_2 = "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAA\r\n"
OFFERS = {
    "a web socket": SOCKET,
    "HTTP/2": HTTP_2,
    "HTTP/2 without an upgrade of the connection": "upgrade: h2c\r\n",
    "TLS": "connection: upgrade\r\nupgrade: TLS/1.0, HTTP/1.1\r\n",
    "an unknown protocol": "connection: keep-alive, upgrade\r\nupgrade: unknown/2\r\n",
    "nothing": "connection: upgrade\r\n",
    "an empty protocol": "connection: upgrade\r\nupgrade:\r\n",
}


@pytest.mark.parametrize("offer", OFFERS)
async def test_an_offer_is_ignored_and_the_request_answered(front: Front, offer: str) -> None:
    wire = await front.dial()
    mine = "x-request-id: mine\r\n"
    asked = (
        get(fields=mine + OFFERS[offer]),
        post(fields=OFFERS[offer] + mine),
        in_chunks(chunked(BODIES[HOT]), OFFERS[offer] + mine),
        get(HOT, OFFERS[offer] + mine),
        get("/nowhere", OFFERS[offer] + mine),
    )

    for request, status in zip(asked, (200, 200, 200, 405, 404), strict=True):
        await wire.send(request)
        reply = await wire.reply()
        assert (reply.status, reply["x-request-id"], reply["upgrade"]) == (status, "mine", "")

    assert [one.json["messages"] for one in front.remote.requests] == [CHAT["messages"]] * 2
    assert await wire.kept()


@pytest.mark.parametrize("offer", OFFERS)
async def test_an_offer_with_close_is_the_last_request(front: Front, offer: str) -> None:
    fields = OFFERS[offer].replace("connection: ", "connection: close, ")
    if "connection" not in fields:
        fields += "connection: close\r\n"

    assert await front.outcome(get(fields=fields) + PROBE) == (200, False)
    assert await front.outcome(post(fields=fields) + PROBE) == (200, False)


async def test_requests_with_offers_may_follow_each_other_in_one_packet(front: Front) -> None:
    wire = await front.dial()
    both = post(fields=HTTP_2) + get(fields=SOCKET) + in_chunks(chunked(BODIES[HOT]), HTTP_2)

    await wire.send(both * 3)
    found = [(await wire.reply()).status for _ in range(9)]

    assert found == [200] * 9
    assert await wire.kept()


async def test_a_long_body_behind_an_offer_arrives_whole(front: Front) -> None:
    text = "0123456789" * 9_000
    body = json.dumps({**CHAT, "messages": [{"role": "user", "content": text}]}).encode()

    assert await front.outcome(post(body, HTTP_2)) == (200, True)
    assert front.remote.requests[0].json["messages"] == [{"role": "user", "content": text}]


async def test_frames_behind_the_offer_of_a_web_socket_end_the_connection(front: Front) -> None:
    wire = await front.dial()

    await wire.send(get(fields=SOCKET), b"\x81\x85\0\0\0\0hello")

    assert (await wire.reply()).status == 200
    assert not await wire.kept()


NOT_HTTP_1 = {
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    "TLS": bytes.fromhex("1603010200010001fc0303") + bytes(509),
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "an answer": b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    "a proxy's first line": b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + PROBE,
    "a proxy's first bytes": b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12) + PROBE,
    "NUL": bytes(100),
}


@pytest.mark.parametrize("what", NOT_HTTP_1)
async def test_another_protocol_is_refused(front: Front, what: str) -> None:
    assert await front.outcome(NOT_HTTP_1[what]) == (400, False)


@pytest.mark.parametrize("what", NOT_HTTP_1)
async def test_another_protocol_behind_a_request_is_refused(front: Front, what: str) -> None:
    wire = await front.dial()

    await wire.send(get())
    assert (await wire.reply()).status == 200
    await wire.send(NOT_HTTP_1[what])

    assert (await wire.reply()).status == 400
    assert await wire.ended()
