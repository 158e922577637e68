"""One turn of the event loop is one batch: read, work, write."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import pytest

from strowger_gateway.gateway.platform.eventloop.turn import current_turn

pytestmark = pytest.mark.anyio


class Wire:
    """A transport that keeps what is written."""

    def __init__(self, journal: list[str], name: str, *, broken: bool = False) -> None:
        self._journal = journal
        self._name = name
        self._broken = broken
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes) -> None:
        if self._broken:
            raise ValueError("a bug")
        self._journal.append(f"{self._name} writes {data.decode()}")


def wire(journal: list[str], name: str, *, broken: bool = False) -> asyncio.Transport:
    return cast(asyncio.Transport, Wire(journal, name, broken=broken))


async def test_everything_is_worked_on_before_anything_is_written() -> None:
    turn, journal = current_turn(), list[str]()
    a, b = wire(journal, "a"), wire(journal, "b")

    def work(name: str, to: asyncio.Transport) -> None:
        journal.append(f"work {name}")
        turn.write(to, name.encode())
        if name == "1":
            turn.run_soon(partial(work, "4", b))

    for name, to in (("1", a), ("2", b), ("3", a)):
        turn.run_soon(partial(work, name, to))
    await asyncio.sleep(0)

    assert journal == ["work 1", "work 2", "work 3", "work 4", "a writes 13", "b writes 24"]


async def test_a_bug_in_one_request_or_connection_never_stops_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turn, journal = current_turn(), list[str]()
    broken, whole = wire(journal, "broken", broken=True), wire(journal, "whole")

    def fails() -> None:
        raise ValueError("a bug")

    def cancels() -> None:
        raise asyncio.CancelledError

    turn.run_soon(cancels)
    turn.run_soon(fails)
    turn.run_soon(partial(journal.append, "worked"))
    turn.write(broken, b"1")
    turn.write(whole, b"2")
    await asyncio.sleep(0)

    assert journal == ["worked", "whole writes 2"]
    assert caplog.text.count("ValueError: a bug") == 2

    turn.run_soon(partial(journal.append, "the next turn"))
    await asyncio.sleep(0)
    assert journal[-1] == "the next turn"


async def test_thousands_at_once_do_not_wait_for_the_last() -> None:
    turn, journal = current_turn(), list[str]()
    to = wire(journal, "a")

    for _ in range(1000):
        turn.run_soon(partial(turn.write, to, b"."))
    await asyncio.sleep(0)

    assert len(journal) == 63
    assert max(map(len, journal)) == len("a writes ") + 16


async def test_what_is_held_is_written_before_a_close_and_forgotten_after_a_loss() -> None:
    turn, journal = current_turn(), list[str]()
    to = wire(journal, "a")

    turn.write(to, b"1")
    turn.flush(to)
    turn.write(to, b"2")
    turn.drop(to)
    await asyncio.sleep(0)

    assert journal == ["a writes 1"]


@asynccontextmanager
async def echo() -> AsyncGenerator[int, None]:
    """A server that answers byte by byte; its port."""
    turn = current_turn()

    class Echo(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport = cast(asyncio.Transport, transport)

        def data_received(self, data: bytes) -> None:
            for one in data:
                turn.run_soon(partial(turn.write, self._transport, bytes([one])))

    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_pieces_to_one_socket_leave_together() -> None:
    async with echo() as port:
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=sock)
        writer.write(b"hello")
        assert await reader.read(100) == b"hello"
        writer.close()
        await writer.wait_closed()
