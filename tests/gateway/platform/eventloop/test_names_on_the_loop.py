"""The serving processes' event loop: libraries' look-ups wait for no other name."""

import asyncio
import socket
import sys
import threading
from collections.abc import Coroutine, Generator
from typing import TypeVar

import httpx
import pytest

from strowger_gateway.gateway.platform.names.look_up import Found
from strowger_gateway.gateway.platform.names.names import Names
from tests.stand_ins.doubles import answering, raw_server, sized

if sys.platform == "win32":
    pytest.skip("Windows has asyncio's own loop", allow_module_level=True)

from strowger_gateway.gateway.platform.eventloop.loop import NamesLoop

Result = TypeVar("Result")
ENOUGH_S = 20.0


class Book:
    """A look-up that is stuck for names that begin with it, and knows 127.0.0.1 for others."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.released = threading.Event()

    def __call__(self, host: str) -> Found:
        self.asked.append(host)
        if host.startswith("stuck"):
            self.released.wait(60)
        return [(socket.AF_INET, ("127.0.0.1", 0))]


@pytest.fixture
def book() -> Generator[Book]:
    made = Book()
    yield made
    made.released.set()


def run(book: Book, work: Coroutine[None, None, Result]) -> Result:
    with asyncio.Runner(loop_factory=lambda: NamesLoop(Names(book))) as runner:
        return runner.run(asyncio.wait_for(work, ENOUGH_S))


def test_names_that_hang_hold_up_neither_libraries_nor_numbers(book: Book) -> None:
    async def work() -> list[str]:
        loop = asyncio.get_running_loop()
        stuck = [
            asyncio.ensure_future(loop.getaddrinfo(f"stuck{number}.test", 1)) for number in range(8)
        ]
        async with raw_server(answering(sized(b"hello"))) as server:
            async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
                named = await client.get(f"http://vendor.test:{server.port}/")
                numbered = await client.get(f"http://127.0.0.1:{server.port}/")
            _, writer = await asyncio.open_connection("cache.test", server.port)
            writer.close()
            await writer.wait_closed()
        for one in stuck:
            one.cancel()
        return [named.text, numbered.text]

    assert run(book, work()) == ["hello", "hello"]
    assert {"vendor.test", "cache.test"} <= set(book.asked)


def test_what_is_not_a_look_up_of_a_stream_is_the_loops_own(book: Book) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        assert await loop.getaddrinfo("127.0.0.1", 53, type=socket.SOCK_DGRAM)
        assert await loop.getaddrinfo(None, 80, flags=socket.AI_PASSIVE)
        assert await loop.getaddrinfo("::1", "http", type=socket.SOCK_STREAM)

    run(book, work())
    assert book.asked == []


def test_a_family_is_respected(book: Book) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo("api.test", 80, family=socket.AF_INET)
        assert [one[4] for one in found] == [("127.0.0.1", 80)]
        with pytest.raises(socket.gaierror):
            await loop.getaddrinfo("api.test", 80, family=socket.AF_INET6)

    run(book, work())
