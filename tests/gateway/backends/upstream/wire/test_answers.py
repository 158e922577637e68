"""Well-formed answers are read to their end, and their connection is reused if possible."""

import asyncio

import pytest

from tests.gateway.backends.upstream.wire.exchanging import Open, fetch, post, soon
from tests.stand_ins.doubles import Peer, answering, chunked, raw_server, sized

pytestmark = pytest.mark.anyio

KEPT = {
    "sized": (sized(b"hello"), b"hello"),
    "sized and empty": (sized(b""), b""),
    "chunked": (chunked(b"he", b"llo"), b"hello"),
    "chunked, with an extension and a trailer": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        b'5;why="not"\r\nhello\r\n0\r\nx-digest: abc\r\n\r\n',
        b"hello",
    ),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "304": (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", b""),
    "100 and 103 first": (
        b"HTTP/1.1 100 Continue\r\n\r\n"
        b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n" + sized(b"hello"),
        b"hello",
    ),
    "no reason phrase": (b"HTTP/1.1 200\r\ncontent-length: 5\r\n\r\nhello", b"hello"),
}
CLOSED = {
    "connection: close": (sized(b"hello", "200 OK", "connection: close"), b"hello"),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello", b"hello"),
    "until the connection closes": (b"HTTP/1.1 200 OK\r\n\r\nhello", b"hello"),
    "until the connection closes, HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nhello", b"hello"),
}


async def test_a_request_arrives_as_it_was_given(open_transport: Open) -> None:
    async with raw_server(answering(sized(b"ok"))) as server:
        transport = open_transport(server.base_url + "/ignored")

        reply = await post(transport, b'{"a":1}', target="/v1/a%2Fb/c:d?x=1%202&y=%C3%A9")
        await reply.aclose()

        request = server.requests[0]
        assert (request.method, request.path) == ("POST", "/v1/a%2Fb/c:d?x=1%202&y=%C3%A9")
        assert request.body == b'{"a":1}'
        assert request.headers == {
            "host": server.base_url.removeprefix("http://"),
            "content-type": "application/json",
            "authorization": "Bearer sk-very-secret",
            "accept-encoding": "identity",
            "content-length": "7",
        }


@pytest.mark.parametrize("name", KEPT)
async def test_an_answer_with_an_end_leaves_the_connection_for_the_next(
    name: str, open_transport: Open
) -> None:
    answer, body = KEPT[name]
    async with raw_server(answering(answer)) as server:
        transport = open_transport(server.base_url)

        bodies = [await fetch(transport) for _ in range(3)]

        assert bodies == [body] * 3
        assert len(server.connections) == 1


@pytest.mark.parametrize("name", CLOSED)
async def test_an_answer_that_ends_its_connection_is_whole_all_the_same(
    name: str, open_transport: Open
) -> None:
    answer, body = CLOSED[name]
    async with raw_server(answering([answer, "close"])) as server:
        transport = open_transport(server.base_url)

        bodies = [await fetch(transport) for _ in range(3)]

        assert bodies == [body] * 3
        assert len(server.connections) == 3


async def test_a_connection_that_the_server_will_close_is_not_reused(open_transport: Open) -> None:
    async with raw_server(answering(sized(b"ok", "200 OK", "Connection: Close"))) as server:
        transport = open_transport(server.base_url)

        bodies = [await fetch(transport) for _ in range(2)]

        assert bodies == [b"ok"] * 2
        assert len(server.connections) == 2


async def test_the_answer_to_head_has_no_body(open_transport: Open) -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"
    async with raw_server(answering(answer)) as server:
        transport = open_transport(server.base_url)

        bodies = [await fetch(transport, b"", method="HEAD") for _ in range(2)]

        assert bodies == [b"", b""]


async def test_status_and_headers_are_given_with_lower_case_names_and_joined_values(
    open_transport: Open,
) -> None:
    answer = sized(b"", "429 Slow Down", "Retry-After: 7  ", "X-A: 1", "x-a:2", "X-Caf: caf\xe9")
    answer = answer.replace("\xe9".encode(), b"\xe9")
    async with raw_server(answering(answer)) as server:
        transport = open_transport(server.base_url)

        reply = await post(transport)
        await reply.aclose()

        assert reply.status == 429
        assert reply.headers == {
            "content-length": "0",
            "retry-after": "7",
            "x-a": "1, 2",
            "x-caf": "caf\xe9",
        }


async def test_a_chunk_is_given_out_when_it_arrives_and_not_later(open_transport: Open) -> None:
    seen = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        await seen.wait()
        await peer.send(b"6\r\nsecond\r\n0\r\n\r\n")
        await peer.stay()

    async with raw_server(script) as server:
        reply = await post(open_transport(server.base_url))

        first = await reply.chunk(soon())
        seen.set()
        rest = await reply.body(soon(), 100)
        end = await reply.chunk(soon())
        await reply.aclose()

        assert (first, rest, end) == (b"first", b"second", b"")


async def test_a_large_body_passes_in_both_directions(open_transport: Open) -> None:
    big = bytes(range(256)) * 20_000
    async with raw_server(answering(sized(big))) as server:
        transport = open_transport(server.base_url)

        bodies = [await fetch(transport, big) for _ in range(2)]

        assert bodies == [big, big]
        assert [request.body for request in server.requests] == [big, big]
        assert len(server.connections) == 1


async def test_an_answer_that_comes_byte_by_byte_is_the_same_answer(open_transport: Open) -> None:
    async def script(peer: Peer) -> None:
        for answer, _ in KEPT.values():
            await peer.request()
            for byte in answer:
                await peer.send(bytes([byte]))
                await asyncio.sleep(0)
        await peer.stay()

    async with raw_server(script) as server:
        transport = open_transport(server.base_url)

        bodies = [await fetch(transport) for _ in KEPT]

        assert bodies == [body for _, body in KEPT.values()]
        assert len(server.connections) == 1
