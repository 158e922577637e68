"""The gateway's benchmark sends what it says, and counts what the contender's processes use."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from typing import cast

import pytest
import uvloop

from benchmarks.gateway.load import Answered, Load, ask
from benchmarks.gateway.processes import cpu_s, resident_mb, used_s
from benchmarks.gateway.requests import Halves, mixed, plain

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
BUSY = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\n{}"


class Contender(asyncio.Protocol):
    """Answers each body. reads: whatever arrived, in the pieces in which it did."""

    def __init__(self, reads: list[bytes], answer: bytes) -> None:
        self._reads, self._answer, self._held = reads, answer, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._reads.append(data)
        self._held += data
        if self._held.endswith(b"}"):
            self._held = b""
            self._transport.write(self._answer)


def reads(gap_s: float | None, answer: bytes = OK) -> tuple[list[bytes], Answered]:
    """What a contender reads of two requests on each of three connections."""

    async def run() -> tuple[list[bytes], Answered]:
        found: list[bytes] = []
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Contender(found, answer), "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            answered = await ask(port, plain(stream=False), twice, connections=3, gap_s=gap_s)
        return found, answered

    return uvloop.run(run())


async def twice(load: Load) -> None:
    await load.at_once()
    await load.at_once()


def bodies(requests: Iterator[Halves], number: int) -> list[dict[str, object]]:
    return [json.loads(body) for _, body in islice(requests, number)]


def test_head_and_body_are_two_segments_and_no_body_is_sent_twice() -> None:
    found, answered = reads(gap_s=0)

    sent = [read for read in found if read.startswith(b"{")]
    heads = [read for read in found if read.startswith(b"POST ")]
    assert len(sent) == len(heads) == len(found) / 2 == len(answered.latencies_s) == 6
    assert all(head.endswith(b"\r\n\r\n") for head in heads)
    assert len(set(sent)) == 6


def test_a_request_in_one_write_is_one_segment() -> None:
    found, answered = reads(gap_s=None)

    assert len(found) == len(set(found)) == len(answered.latencies_s) == 6


def test_an_answer_that_is_no_success_fails_the_run() -> None:
    with pytest.raises(RuntimeError, match="429"):
        reads(gap_s=None, answer=BUSY)


def test_a_quarter_of_the_mixed_requests_has_tools_or_parts_and_each_its_own_trace() -> None:
    chats = bodies(mixed(), 800)
    traces = {head.partition(b"traceparent: ")[2] for head, _ in islice(mixed(), 800)}

    with_tools = [chat for chat in chats if "tools" in chat]
    with_parts = [chat for chat in chats if '"type": "text"' in json.dumps(chat)]
    assert len(with_tools) == len(with_parts) == 100
    assert len(traces) == 800


def test_the_announced_length_is_that_of_the_body() -> None:
    for head, body in (*islice(plain(stream=True), 3), *islice(mixed(), 8)):
        assert f"content-length: {len(body)}\r\n".encode() in head


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_cpu_and_memory_are_those_of_all_descendants_the_largest_first() -> None:
    child = "held = b'x' * 50_000_000; sum(range(3_000_000)); print(flush=True); input()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        sizes, used = resident_mb(process.pid), used_s({}, cpu_s(process.pid))
        process.communicate(b"\n")

    assert len(sizes) == len(used) == 2
    assert sizes[0] > 45 > sizes[1]
    assert used[0] > 0.01
