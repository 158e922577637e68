"""The network may split an answer anywhere; the caller reads the same."""

import asyncio
from collections.abc import Iterable

import pytest

from strowger_gateway.gateway.backends.upstream.wire.connection import HttpConnection
from strowger_gateway.gateway.backends.upstream.wire.deadlines import Deadlines
from strowger_gateway.gateway.backends.upstream.wire.http_message import Limits
from strowger_gateway.schemas.errors import UpstreamBroken
from tests.gateway.backends.upstream.wire.exchanging import Nowhere, soon
from tests.stand_ins.doubles import chunked, sized

pytestmark = pytest.mark.anyio

ANSWERS = {
    "sized": (sized(b"hello world", "200 OK", "x-a: 1", "x-a: 2"), b"hello world"),
    "chunked": (chunked(b"hello", b" ", b"world"), b"hello world"),
    "informational, extensions and trailers": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx-a: b\r\n\r\n"
        b'B;a=b;c="d"\r\nhello world\r\n0;last\r\nx-sum: 1\r\nx-more: 2\r\n\r\n',
        b"hello world",
    ),
    "empty": (sized(b""), b""),
}


class Slot:
    """The owner of the connection under test: what became of it."""

    def __init__(self) -> None:
        self.kept = 0
        self.freed = 0

    def keep(self, connection: HttpConnection) -> None:
        self.kept += 1

    def free(self, connection: HttpConnection) -> None:
        self.freed += 1

    def forget(self, connection: HttpConnection) -> None:
        self.freed += 1

    def suspect(self, since: float) -> None:
        pass


@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_cut_anywhere_is_the_same_answer(name: str) -> None:
    answer, body = ANSWERS[name]
    whole = await _read([answer])

    pairs = [await _read([answer[:cut], answer[cut:]]) for cut in range(1, len(answer))]
    singles = await _read(bytes([byte]) for byte in answer)

    assert whole[2] == body
    assert pairs == [whole] * (len(answer) - 1)
    assert singles == whole


@pytest.mark.parametrize("name", ["sized", "chunked", "informational, extensions and trailers"])
async def test_an_answer_that_stops_anywhere_is_broken(name: str) -> None:
    answer, _ = ANSWERS[name]

    for end in range(1, len(answer)):
        with pytest.raises(UpstreamBroken):
            await _read([answer[:end]], lost=True)


async def _read(
    pieces: Iterable[bytes], *, lost: bool = False
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of what arrives in `pieces`, each in a turn of its own."""
    slot = Slot()
    connection = HttpConnection("up", slot, Deadlines(), Limits())
    connection.connection_made(Nowhere())
    feeding = asyncio.ensure_future(_feed(connection, pieces, lost))
    await connection.send(b"", soon(), head_only=False)
    status, headers, body = connection.status, connection.headers, b""
    while part := await connection.read(soon()):
        body += part
    connection.release()
    await feeding
    assert (slot.kept, slot.freed) == (1, 0)
    return status, dict(headers), body


async def _feed(connection: HttpConnection, pieces: Iterable[bytes], lost: bool) -> None:
    for piece in pieces:
        await asyncio.sleep(0)
        connection.data_received(piece)
    if lost:
        connection.eof_received()
        connection.connection_lost(None)
