"""An upstream for the chaos run: repeats what the prompt requests, with the fault of its mode.

python -m benchmarks.chaos.upstream PORT SEED. `POST /mode/NAME` changes the mode. The answer to a
prompt `ID COUNT` is the words `ID:0 ID:1 ...`, so that a client can detect lost, swapped and
foreign words.
"""

import asyncio
import json
import random
import re
import sys
from typing import cast

MODES = ("good", "slow", "reset", "500", "429", "cut", "garbage", "stall")
"""What an upstream does; in the first two modes it serves."""

SERVING = frozenset(MODES[:2])
PACE_S, SLOW_S, STALL_S = 0.01, 0.4, 30.0

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Upstream:
    """One process. mode: the current one; a request keeps the mode with which it began."""

    def __init__(self, seed: int) -> None:
        self.mode = "good"
        self._draw = random.Random(seed)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = _LENGTH.search(head)
                body = await reader.readexactly(int(found[1]) if found else 0)
                target = head.split(b" ", 2)[1].decode()
                if target.startswith("/mode/"):
                    self.mode = target.removeprefix("/mode/")
                    _send(writer, 200, b"{}")
                elif not await self._answer(writer, json.loads(body)):
                    return
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, request: dict[str, object]) -> bool:
        """True if the connection can be used again."""
        mode = self.mode
        messages = cast(list[dict[str, str]], request["messages"])
        name, count = messages[-1]["content"].split()
        words = [f"{name}:{place} " for place in range(int(count))]
        await asyncio.sleep(SLOW_S if mode == "slow" else PACE_S)
        if mode == "reset":
            writer.transport.abort()
            return False
        if mode == "500":
            _send(writer, 500, b'{"error": {"message": "broken"}}')
            return True
        if mode == "429":
            headers = b"retry-after: 1\r\n" if self._draw.random() < 0.5 else b""
            _send(writer, 429, b'{"error": {"message": "slow down"}}', headers)
            return True
        if request.get("stream"):
            return await self._stream(writer, words, mode)
        if mode == "garbage":
            _send(writer, 200, b'{"choices": [{"message": {"content": "' + b"\xff\xfe" * 20)
            return True
        body = _whole("".join(words))
        if mode in ("cut", "stall"):
            writer.write(_head(200, len(body)) + body[: len(body) // 2])
            await writer.drain()
            if mode == "stall":
                await asyncio.sleep(STALL_S)
            writer.transport.abort()
            return False
        _send(writer, 200, body)
        return True

    async def _stream(self, writer: asyncio.StreamWriter, words: list[str], mode: str) -> bool:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        ends = self._draw.randrange(len(words) + 1) if mode in ("cut", "garbage", "stall") else -1
        for place, word in enumerate(words):
            if place == ends:
                if mode == "garbage":
                    writer.write(_chunk(b'data: {"choices": [{"delta": \xff\xfe}\n\n'))
                await writer.drain()
                if mode == "stall":
                    await asyncio.sleep(STALL_S)
                writer.transport.abort()
                return False
            writer.write(_chunk(_event({"content": word}, None)))
            await writer.drain()
            await asyncio.sleep(PACE_S)
        if ends >= 0:
            writer.transport.abort()
            return False
        writer.write(_chunk(_event({}, "stop")) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        return True


def _head(status: int, length: int, headers: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n" % (
        status,
        headers,
        length,
    )


def _send(writer: asyncio.StreamWriter, status: int, body: bytes, headers: bytes = b"") -> None:
    writer.write(_head(status, len(body), headers) + body)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _whole(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps(
        {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
    ).encode()


def _event(delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


async def main(port: int, seed: int) -> None:
    server = await asyncio.start_server(Upstream(seed).serve, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
