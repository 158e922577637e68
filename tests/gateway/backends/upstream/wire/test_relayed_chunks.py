"""Whole chunks are passed on without the parser; it and the caller notice no difference."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import httptools
from httptools.parser.errors import HttpParserError
from hypothesis import example, given
from hypothesis import strategies as st

from strowger_gateway.gateway.backends.upstream.wire.connection import HttpConnection
from strowger_gateway.gateway.backends.upstream.wire.deadlines import Deadlines
from strowger_gateway.gateway.backends.upstream.wire.http_message import Limits, whole_chunk
from strowger_gateway.schemas.errors import UpstreamBroken
from tests.gateway.backends.upstream.wire.exchanging import Nowhere, soon
from tests.gateway.backends.upstream.wire.test_split_answers import Slot

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
SIZED = b"HTTP/1.1 200 OK\r\ncontent-length: 26\r\n\r\n14\r\n" + b"s" * 20 + b"\r\n"
"""An answer whose body looks like a chunk."""

SIZES = st.sampled_from([1, 9, 15, 16, 17, 20, 213, 254, 255, 256, 257, 4095, 4096, 5000])


def filled(size: int, byte: int) -> bytes:
    return bytes([byte]) * size


CONTENTS = st.builds(filled, SIZES, st.integers(0, 255)) | st.sampled_from(
    [b"14\r\n" + b"x" * 20 + b"\r\n", b"\r\n" * 9, b"0\r\n\r\n" * 4]
)


def as_chunk(content: bytes, style: str) -> bytes:
    size = b"%x" % len(content)
    match style:
        case "capital":
            size = size.upper()
        case "zeros":
            size = b"00" + size
        case "extension":
            size += b";a=b"
        case _:
            pass
    return size + b"\r\n" + content + b"\r\n"


STYLES = st.sampled_from(["plain"] * 6 + ["capital", "zeros", "extension"])
CHUNKS = st.lists(st.builds(as_chunk, CONTENTS, STYLES), max_size=8)
ENDS = st.sampled_from([b"0\r\n\r\n", b"0\r\nx-sum: 1\r\n\r\n"])
GARBAGE = st.sampled_from(
    [b"", b"\r\n", b"+14\r\n", b"0x14\r\n", b"14\n", b"1", b"14\r\n" + b"y" * 21 + b"\r\n", b"zz"]
)


class Recorder:
    """The parser alone, as the oracle."""

    def __init__(self) -> None:
        self.body = b""
        self.complete = False

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete = True


def parsed(pieces: Sequence[bytes]) -> tuple[bytes, str]:
    recorder = Recorder()
    parser = httptools.HttpResponseParser(recorder)
    for piece in pieces:
        try:
            parser.feed_data(piece)
        except HttpParserError:
            return recorder.body, "complete" if recorder.complete else "broken"
        if recorder.complete:
            return recorder.body, "complete"
    return recorder.body, "open"


async def relayed(pieces: Sequence[bytes]) -> tuple[bytes, str]:
    """The body, passed on piece by piece; then the connection carries another answer."""
    slot, body = Slot(), list[bytes]()
    connection = HttpConnection("up", slot, Deadlines(), Limits())
    connection.connection_made(Nowhere())
    loop = asyncio.get_running_loop()
    loop.call_soon(connection.data_received, pieces[0])
    await connection.send(b"", soon(), head_only=False)

    def step(piece: bytes) -> float | None:
        body.append(piece)
        return soon()

    relaying = asyncio.ensure_future(connection.relay(step, soon()))
    for piece in pieces[1:]:
        await asyncio.sleep(0)
        connection.data_received(piece)
    await asyncio.sleep(0)
    if not relaying.done():
        relaying.cancel()
        await asyncio.wait({relaying})
        connection.release()
        return b"".join(body), "open"
    try:
        rest = await connection.read(soon())
    except UpstreamBroken:
        connection.release()
        return b"".join(body), "broken"
    assert rest == b""
    connection.release()
    if slot.kept:
        assert await _answered_again(connection) == SIZED[-26:]
    return b"".join(body), "complete"


async def _answered_again(connection: HttpConnection) -> bytes:
    body = list[bytes]()

    def step(piece: bytes) -> float | None:
        body.append(piece)
        return soon()

    head, rest = SIZED[:-26], SIZED[-26:]
    asyncio.get_running_loop().call_soon(connection.data_received, head)
    await connection.send(b"", soon(), head_only=False)
    relaying = asyncio.ensure_future(connection.relay(step, soon()))
    await asyncio.sleep(0)
    connection.data_received(rest)
    await relaying
    connection.release()
    return b"".join(body)


@given(
    chunks=CHUNKS,
    end=ENDS | GARBAGE,
    places=st.lists(st.integers(0, 20_000), max_size=8),
    apart=st.booleans(),
)
@example(chunks=[as_chunk(b"a" * 20, "plain")] * 3, end=b"14\r\n", places=[], apart=True)
@example(chunks=[as_chunk(b"a" * 20, "plain")] * 2, end=b"1", places=[], apart=True)
def test_relayed_bytes_are_those_of_the_parser(
    chunks: list[bytes], end: bytes, places: list[int], apart: bool
) -> None:
    """apart: each chunk is a read of its own, as servers send streams."""
    if apart:
        pieces = [HEAD, *chunks, *([end] if end else [])]
    else:
        body = b"".join(chunks) + end
        cuts = sorted({place % (len(body) + 1) for place in places} | {0, len(body)})
        found = [body[a:b] for a, b in pairwise(cuts)]
        pieces = [HEAD, *(one for one in found if one)]

    assert asyncio.run(relayed(pieces)) == parsed(pieces)


@given(CONTENTS, STYLES, GARBAGE)
def test_only_a_whole_chunk_is_taken_for_one(content: bytes, style: str, more: bytes) -> None:
    chunk = as_chunk(content, style)

    assert whole_chunk(chunk) in (content, b"")
    assert whole_chunk(chunk + more) in ((content, b"") if not more else (b"",))
    assert whole_chunk(chunk[:-1]) == whole_chunk(chunk[1:]) == b""


def test_an_event_of_a_stream_is_a_whole_chunk() -> None:
    content = b'data: {"choices":[{"index":0,"delta":{"content":" token"}}]}\n\n'

    assert whole_chunk(as_chunk(content, "plain")) == content
