"""Every server fault is an error with a code, and affects only its own exchange."""

import socket
import traceback

import pytest

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.schemas.errors import GatewayError, UpstreamBroken, UpstreamUnreachable
from tests.gateway.backends.upstream.wire.exchanging import SECRET, Open, fetch, post, soon
from tests.stand_ins.doubles import Peer, Script, Step, answering, chunked, raw_server, sized

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\n"
IN_THE_HEAD: dict[str, list[Step]] = {
    "closed before the answer": ["close"],
    "reset before the answer": ["reset"],
    "closed in the status line": [b"HTTP/1.1 20", "close"],
    "reset in the head": [HEAD + b"content-le", 0.02, "reset"],
    "closed in the head": [HEAD + b"content-length: 1\r\n", "close"],
    "closed after 100 Continue": [b"HTTP/1.1 100 Continue\r\n\r\n", "close"],
    "a web page without HTTP": [b"<!DOCTYPE html><html><body>hello</body></html>", "close"],
    "another protocol": [b"220 mail.example ESMTP\r\n", "close"],
    "HTTP/2": [b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64"],
    "switching protocols unasked": [
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"
    ],
    "a status that there is not": [b"HTTP/1.1 000 Odd\r\ncontent-length: 2\r\n\r\nhi"],
    "a header line without end": [HEAD + b"x-long: " + b"a" * 200_000],
    "a head over the limit": [HEAD + b"x-part: %s\r\n" % (b"a" * 1000) * 200 + b"\r\n"],
    "too many headers": [sized(b"", "200 OK", *(f"x-{i}: 1" for i in range(300)))],
    "two lengths": [HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello"],
    "a negative length": [HEAD + b"content-length: -5\r\n\r\nhello"],
    "an unknown transfer-encoding": [HEAD + b"transfer-encoding: gzip\r\n\r\nhello", "close"],
    "a compressed body": [sized(b"\x1f\x8b", "200 OK", "content-encoding: gzip")],
}
IN_THE_BODY: dict[str, list[Step]] = {
    "closed in a sized body": [HEAD + b"content-length: 10\r\n\r\nhello", "close"],
    "reset in a sized body": [HEAD + b"content-length: 10\r\n\r\nhello", 0.1, "reset"],
    "closed in a chunk": [HEAD + b"transfer-encoding: chunked\r\n\r\na\r\nhello", "close"],
    "reset in a chunk": [HEAD + b"transfer-encoding: chunked\r\n\r\na\r\nhello", 0.1, "reset"],
    "closed between chunks": [chunked(b"hello")[:-5], "close"],
    "closed in the last chunk": [chunked(b"hello")[:-2], "close"],
    "reset between chunks": [chunked(b"hello")[:-5], 0.1, "reset"],
    "reset in a body without a length": [HEAD + b"\r\nhello", 0.1, "reset"],
    "a chunk's size that is not a number": [chunked(b"hello")[:-5] + b"zz\r\n", 0.1],
}


@pytest.mark.parametrize("name", IN_THE_HEAD)
async def test_a_broken_head_fails_only_that_exchange(name: str, open_transport: Open) -> None:
    async with raw_server(_first(IN_THE_HEAD[name])) as server:
        transport = open_transport(server.base_url, max_connections=1)

        with pytest.raises(UpstreamBroken, match=r"^up: ") as caught:
            await post(transport)

        assert await fetch(transport) == b"fine"
        assert len(server.connections) == 2
        assert SECRET not in _everything_about(caught.value)
        assert SECRET not in repr(transport)


@pytest.mark.parametrize("name", IN_THE_BODY)
async def test_a_broken_body_is_a_failure_after_what_did_arrive(
    name: str, open_transport: Open
) -> None:
    async with raw_server(_first(IN_THE_BODY[name])) as server:
        transport = open_transport(server.base_url, max_connections=1)
        reply = await post(transport)
        arrived = await reply.chunk(soon())

        with pytest.raises(UpstreamBroken, match=r"^up: ") as caught:
            await reply.body(soon(), 100)
        with pytest.raises(UpstreamBroken):
            await reply.chunk(soon())
        await reply.aclose()

        assert arrived == b"hello"
        assert await fetch(transport) == b"fine"
        assert SECRET not in _everything_about(caught.value)


async def test_a_body_over_the_limit_is_refused(open_transport: Open) -> None:
    async with raw_server(answering(chunked(*[b"x" * 100] * 20))) as server:
        transport = open_transport(server.base_url)
        reply = await post(transport)

        with pytest.raises(UpstreamBroken, match="over 1000 bytes"):
            await reply.body(soon(), 1000)
        await reply.aclose()


async def test_a_refused_connection_is_unreachable(open_transport: Open) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        transport = open_transport(f"http://127.0.0.1:{unused.getsockname()[1]}")

        with pytest.raises(UpstreamUnreachable, match=r"^up: "):
            await post(transport)


async def test_a_name_without_an_address_is_unreachable(open_transport: Open) -> None:
    transport = open_transport("http://no-such-host.invalid")

    with pytest.raises(UpstreamUnreachable, match=r"^up: "):
        await post(transport)


async def test_an_early_answer_is_given_although_the_request_is_still_on_its_way(
    open_transport: Open,
) -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(sized(b"too large", "413 Content Too Large", "connection: close"))
        await peer.stay()

    async with raw_server(script) as server:
        reply = await post(open_transport(server.base_url), b"x" * 3_000_000)

        body = await reply.body(soon(), 100)
        await reply.aclose()

        assert (reply.status, body) == (413, b"too large")


@pytest.mark.parametrize(
    ("target", "header"),
    [
        ("/v1/two words", ("x-a", "1")),
        ("/v1/x\r\nx-evil: 1", ("x-a", "1")),
        ("v1", ("x-a", "1")),
        ("/v1", ("x-a", "1\r\nx-evil: 1")),
        ("/v1", ("x a", "1")),
        ("/v1", ("x-a", "\u2713")),
        ("/v1", ("Content-Length", "3")),
        ("/v1", ("transfer-encoding", "chunked")),
    ],
)
async def test_what_would_smuggle_a_second_request_is_never_sent(
    target: str, header: tuple[str, str], open_transport: Open
) -> None:
    async with raw_server(answering(sized(b""))) as server:
        transport = open_transport(server.base_url)
        outbound = Outbound(target=target, headers=(header,), body=b"")

        with pytest.raises(GatewayError) as caught:
            await transport.exchange(outbound, connect_by=soon(), head_by=soon())

        assert not server.connections
        assert "evil" not in str(caught.value)


def _first(steps: list[Step]) -> Script:
    """A server whose first connection plays `steps` and whose later ones are fine."""
    played = False

    async def script(peer: Peer) -> None:
        nonlocal played
        if played:
            await answering(sized(b"fine"))(peer)
        played = True
        await peer.request()
        await peer.play(*steps)
        await peer.stay()

    return script


def _everything_about(exc: BaseException) -> str:
    return "".join(traceback.format_exception(exc)) + repr(exc)
