"""The table of an exchange's transitions, and that a peer cannot lead out of it."""

import asyncio
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.backends.upstream.wire.connection import HttpConnection
from strowger_gateway.gateway.backends.upstream.wire.deadlines import Deadlines
from strowger_gateway.gateway.backends.upstream.wire.exchange_state import (
    TRANSITIONS,
    ExchangeState,
)
from strowger_gateway.gateway.backends.upstream.wire.faults import StaleConnection
from strowger_gateway.gateway.backends.upstream.wire.http_message import Limits
from strowger_gateway.schemas.errors import UpstreamError
from tests.examples import examples

PIECES = (
    b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 099 Odd\r\n\r\n",
    b"2\r\nok\r\n0\r\n\r\n",
    b"ok",
    b"\r\n",
    b"\x00\xff",
)


class Socket(asyncio.Transport):
    """Takes what is written; `aborted` says that the connection was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def write(self, data: object) -> None:
        pass

    def abort(self) -> None:
        self.aborted = True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Slot:
    """An owner that counts what it gets back."""

    def __init__(self) -> None:
        self.kept = self.freed = 0

    def keep(self, connection: HttpConnection) -> None:
        self.kept += 1

    def free(self, connection: HttpConnection) -> None:
        self.freed += 1

    def forget(self, connection: HttpConnection) -> None:
        raise AssertionError("the connection is in no pool")

    def suspect(self, since: float) -> None:
        pass


def test_a_failed_exchange_stays_failed_and_only_a_complete_one_is_released() -> None:
    changes = [change for row in TRANSITIONS.values() for change in row.items()]
    failed, complete = ExchangeState.FAILED, ExchangeState.COMPLETE

    assert {before for before, _ in changes} == set(ExchangeState)
    assert {after for before, after in changes if before is failed} == {failed}
    assert {before for before, after in changes if after is ExchangeState.READY} == {complete}


@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=6),
    end=st.sampled_from(["lost", "eof, then lost", "released"]),
    head_only=st.booleans(),
)
@settings(max_examples=examples(300), deadline=None)
def test_whatever_a_peer_sends_the_exchange_ends_once(
    pieces: list[bytes], end: str, head_only: bool
) -> None:
    slot = asyncio.run(exchanged(pieces, end, head_only))

    assert slot.kept + slot.freed == 1


async def exchanged(pieces: list[bytes], end: str, head_only: bool) -> Slot:
    slot, socket = Slot(), Socket()
    connection = HttpConnection("a", slot, Deadlines(), Limits())
    connection.connection_made(cast("asyncio.BaseTransport", socket))
    sending = asyncio.ensure_future(
        connection.send(b"GET / HTTP/1.1\r\n\r\n", connection.clock() + 5, head_only=head_only)
    )
    await asyncio.sleep(0)
    for piece in pieces:
        if not socket.aborted:
            connection.data_received(piece)
    if end == "eof, then lost":
        connection.eof_received()
    if end != "released" or connection.state is ExchangeState.SENT or socket.aborted:
        connection.connection_lost(None)
    try:
        await sending
    except StaleConnection:
        pytest.fail("the connection has served no exchange before")
    except UpstreamError:
        return slot
    connection.release()
    return slot
