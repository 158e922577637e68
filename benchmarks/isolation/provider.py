"""A provider whose model names are its manners: quick, slow, and hostile.

python -m benchmarks.isolation.provider PORT. Serves OpenAI's chat completions on loopback:

- `quick`: a short answer.
- `slow`: the same after SLOW_S, streamed or whole: a long reasoning answer, or a hanging server.
- `arguments`: an answer with a tool call whose arguments are 18 MB of nested lists.
- `large`: an answer of 64 MB.
- `frames`, `comments`, `empty`: a stream of small events, comments, or deltas without content, as
  fast as the gateway reads, for FLOOD_S.
- `line`: one line without an end, for FLOOD_S.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

SLOW_S: Final = 20.0
FLOOD_S: Final = 8.0
_STREAM: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)


def whole(message: Mapping[str, object], finish: str = "stop") -> bytes:
    """A complete answer with its head."""
    body = json.dumps(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    ).encode()
    head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
    return f"{head}{len(body)}\r\n\r\n".encode() + body


def _with_arguments() -> bytes:
    arguments = '{"a":[' + ",".join(["[]"] * 6_000_000) + "]}"
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return whole(message, "tool_calls")


def _event(delta: Mapping[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    event = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**event, "choices": [choice]}).encode() + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


QUICK: Final = whole({"role": "assistant", "content": "four"})
_END: Final = _chunk(_event({}, "stop") + b"data: [DONE]\n\n") + b"0\r\n\r\n"
_WHOLE: Final[Mapping[str, Callable[[], bytes]]] = {
    "arguments": _with_arguments,
    "large": lambda: whole({"role": "assistant", "content": "x" * 64_000_000}),
}
_FLOODS: Final[Mapping[str, bytes]] = {
    "frames": _event({"content": "a"}) * 200,
    "comments": b": alive\n\n" * 2000,
    "empty": _event({}) * 200,
    "line": b"a" * 32_768,
}


class Provider:
    """Answers one connection after the other's manner; see the module."""

    def __init__(self) -> None:
        self._built: dict[str, bytes] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                _, _, rest = head.partition(b"content-length:")
                body = await reader.readexactly(int(rest.split(b"\r\n")[0]))
                sent = json.loads(body)
                for piece in self._answer(sent["model"].rpartition("/")[2]):
                    if piece is None:
                        await asyncio.sleep(SLOW_S)
                    else:
                        writer.write(piece)
                        await writer.drain()
        writer.close()

    def _answer(self, model: str) -> Iterator[bytes | None]:
        """Yield what to send, `None` for a pause."""
        if model == "slow":
            yield None
            yield QUICK
        elif model in _WHOLE:
            if model not in self._built:
                self._built[model] = _WHOLE[model]()
            yield self._built[model]
        elif model in _FLOODS:
            yield _STREAM
            piece = _chunk(_FLOODS[model])
            end = time.monotonic() + FLOOD_S
            while time.monotonic() < end:
                yield piece
            yield _END
        else:
            yield QUICK


async def _serve(port: int) -> None:
    provider = Provider()
    server = await asyncio.start_server(
        provider.serve, "127.0.0.1", port, backlog=4096, limit=2**20
    )
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
