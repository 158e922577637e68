"""A provider for the burst: answers as many tokens as asked, sometimes fails or is late.

python -m tests.gateway.fleet.burst.burst_upstream PORT JOURNAL SEED. A prompt is `NAME TOKENS`. The
journal has a line `+ NAME MODEL` when a request begins and `- NAME MODEL` when it ends, or when the
gateway closes its connection.
"""

import asyncio
import json
import random
import re
import sys
from typing import TextIO, cast

PROMPT_TOKENS = 6
"""At most what the gateway estimates for a prompt of this form."""

NOTICE_TURNS = 10
"""Turns of the event loop within which a connection that was closed before is noticed."""

FAILS, LATE, LATE_S, PACE_S = 0.05, 0.05, 0.6, 0.005

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class BurstUpstream:
    """journal: an open file that is written line by line."""

    def __init__(self, journal: TextIO, seed: int) -> None:
        self._journal = journal
        self._draw = random.Random(seed)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = b""
        try:
            while True:
                head = first + await reader.readuntil(b"\r\n\r\n")
                found = _LENGTH.search(head)
                body = await reader.readexactly(int(found[1]) if found else 0)
                first = await self._answer_while_connected(reader, writer, json.loads(body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer_while_connected(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        request: dict[str, object],
    ) -> bytes:
        """Return the first byte of the next request, if it is there already.

        Raises ConnectionResetError once the gateway has closed the connection.
        """
        answering = asyncio.create_task(self._answer(writer, request))
        more = asyncio.create_task(reader.read(1))
        await asyncio.wait({answering, more}, return_when=asyncio.FIRST_COMPLETED)
        for task in (answering, more):
            if not task.done():
                task.cancel()
        found = await asyncio.gather(answering, more, return_exceptions=True)
        if isinstance(found[0], BaseException) or found[1] == b"":
            raise ConnectionResetError
        return found[1] if isinstance(found[1], bytes) else b""

    async def _answer(self, writer: asyncio.StreamWriter, request: dict[str, object]) -> None:
        messages = cast("list[dict[str, str]]", request["messages"])
        name, count = messages[-1]["content"].split()
        for _ in range(NOTICE_TURNS):  # what was closed before this request was sent comes first
            await asyncio.sleep(0)
        self._write("+", name, request)
        try:
            draw = self._draw.random()
            if draw < FAILS:
                _send(writer, 500, b'{"error": {"message": "broken"}}')
                return
            await asyncio.sleep(LATE_S if draw < FAILS + LATE else PACE_S)
            if request.get("stream"):
                await _stream(writer, int(count))
            else:
                _send(writer, 200, _whole(int(count)))
        finally:
            self._write("-", name, request)

    def _write(self, sign: str, name: str, request: dict[str, object]) -> None:
        self._journal.write(f"{sign} {name} {request['model']}\n")
        self._journal.flush()


async def _stream(writer: asyncio.StreamWriter, count: int) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    for _ in range(count):
        if writer.is_closing():
            raise ConnectionResetError
        choice = {"index": 0, "delta": {"content": "word "}, "finish_reason": None}
        writer.write(_event({"choices": [choice]}))
        await writer.drain()
        await asyncio.sleep(PACE_S)
    writer.write(_event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}))
    writer.write(_event({"choices": [], "usage": _usage(count)}))
    writer.write(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


def _usage(count: int) -> dict[str, int]:
    total = PROMPT_TOKENS + count
    return {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": count, "total_tokens": total}


def _whole(count: int) -> bytes:
    message = {"role": "assistant", "content": "word " * count}
    choice = {"index": 0, "message": message, "finish_reason": "length"}
    answer = {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}
    return json.dumps({**answer, "usage": _usage(count)}).encode()


def _event(fields: dict[str, object]) -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", **fields}
    return _chunk(b"data: " + json.dumps(chunk).encode() + b"\n\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _send(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    head = b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    writer.write(head % (status, len(body)) + body)


async def main(port: int, journal: str, seed: int) -> None:
    with open(journal, "w") as file:  # noqa: ASYNC230  at the start, before it serves
        server = await asyncio.start_server(BurstUpstream(file, seed).serve, "127.0.0.1", port)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
