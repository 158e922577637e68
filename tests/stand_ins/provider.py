"""A fake provider on loopback with scripted answers: OpenAI's dialect, and its failures."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import cast

from msgspec import Struct

from tests.oracle.oracle import ORACLE

Json = Mapping[str, object]


class Received(Struct, frozen=True, kw_only=True):
    """One request as received; header names are lower-case. lines: of the headers, in order."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    lines: tuple[str, ...] = ()

    @property
    def json(self) -> dict[str, object]:
        return cast("dict[str, object]", json.loads(self.body))


class Answer:
    """The sending half of one exchange. `gone` is set once the peer has disconnected.

    unended: chunked bodies never get their final chunk, whatever they contain.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.gone = asyncio.Event()
        self.unended = False

    async def raw(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise ConnectionResetError("the other side has hung up")
        if self.unended:
            data = data.removesuffix(b"0\r\n\r\n")
        self._writer.write(data)
        await self._writer.drain()

    async def json(self, body: object, status: int = 200, headers: Json | None = None) -> None:
        data = json.dumps(body).encode()
        await self.body(data, "application/json", status, headers)

    async def body(
        self, data: bytes, kind: str, status: int = 200, headers: Json | None = None
    ) -> None:
        extra = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        head = (
            f"HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\n"
            f"content-length: {len(data)}\r\n{extra}\r\n"
        )
        await self.raw(head.encode() + data)

    async def chat(self, text: str = "hello", finish: str = "stop") -> None:
        await self.json(chat_body(text, finish))

    async def begin_stream(self) -> None:
        await self.raw(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )

    async def chunk(self, data: bytes) -> None:
        await self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def event(self, body: object) -> None:
        await self.chunk(b"data: " + json.dumps(body).encode() + b"\n\n")

    async def text(self, text: str) -> None:
        await self.event(delta_body({"content": text}))

    async def end_stream(self, finish: str | None = "stop", *, done: bool = True) -> None:
        if finish is not None:
            await self.event(delta_body({}, finish))
            await self.event({**delta_body({}), "choices": [], "usage": USAGE})
        if done:
            await self.chunk(b"data: [DONE]\n\n")
        await self.raw(b"0\r\n\r\n")

    async def stream(self, *texts: str) -> None:
        await self.begin_stream()
        await self.event(delta_body({"role": "assistant", "content": ""}))
        for text in texts:
            await self.text(text)
        await self.end_stream()

    def close(self) -> None:
        """Close the connection properly, even inside an answer."""
        self._writer.close()

    def reset(self) -> None:
        """Drop the connection with a RST."""
        self._writer.transport.abort()


USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def chat_body(text: str = "hello", finish: str = "stop") -> Json:
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": "chatcmpl-upstream",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "upstream-model-1",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": USAGE,
    }


def delta_body(delta: Json, finish: str | None = None) -> Json:
    return {
        "id": "chatcmpl-upstream",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "upstream-model-1",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


Behaviour = Callable[[Received, Answer], Awaitable[None]]


async def silent(request: Received, answer: Answer) -> None:
    """Send nothing, and wait until the client disconnects."""
    await answer.gone.wait()


async def answers(request: Received, answer: Answer) -> None:
    """Answer like a working provider: chat, completions and embeddings."""
    body = request.json
    if "input" in request.body.decode() and "embeddings" in request.path:
        inputs = body["input"]
        count = 1
        if isinstance(inputs, list) and not (inputs and isinstance(inputs[0], int)):  # tokens
            count = len(cast("list[object]", inputs))
        data = [{"object": "embedding", "index": i, "embedding": [0.5, -1]} for i in range(count)]
        await answer.json({"object": "list", "data": data, "model": "e", "usage": USAGE})
    elif "prompt" in body:
        await _completes(request, answer)
    elif body.get("stream"):
        await answer.stream("hel", "lo")
    else:
        await answer.chat()


async def _completes(request: Received, answer: Answer) -> None:
    head = {"id": "c", "object": "text_completion", "created": 1_700_000_000, "model": "upstream"}
    if not request.json.get("stream"):
        choice = {"index": 0, "text": "hello", "finish_reason": "stop"}
        await answer.json({**head, "choices": [choice], "usage": USAGE})
        return
    await answer.begin_stream()
    for text, finish in (("hel", None), ("lo", None), ("", "stop")):
        choice = {"index": 0, "text": text, "finish_reason": finish}
        await answer.event({**head, "choices": [choice]})
    await answer.event({**head, "choices": [], "usage": USAGE})
    await answer.end_stream(None)


class Provider:
    """The provider, for tests. `open` counts connections, `hung_up` those the caller ended."""

    def __init__(
        self,
        behaviour: Behaviour,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.behaviour = behaviour
        self.host = host
        self.port = port
        self._tls = tls
        self.requests: list[Received] = []
        self.open = 0
        self.accepted = 0
        self.hung_up = 0
        self.changed = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._stopped = False
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def origin(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def base_url(self) -> str:
        return f"{self.origin}/v1"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, self.host, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the listener and reset every connection."""
        assert self._server is not None
        self._stopped = True
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until a condition is true, of this provider or of what nobody announces."""
        async with asyncio.timeout(seconds), self.changed:
            while not condition():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.changed.wait(), 0.02)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._stopped:
            writer.transport.abort()
            return
        self._writers.add(writer)
        await self._change(opened=1)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while (request := await _read(reader)) is not None:
                    self.requests.append(request)
                    ORACLE.receive(request)
                    await self._change()
                    if not await self._exchange(request, reader, writer):
                        self.hung_up += 1
                        break
        finally:
            self._writers.discard(writer)
            writer.close()
            await self._change(opened=-1)

    async def _exchange(
        self, request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Run the behaviour; return false if the caller disconnected before it was done."""
        answer = Answer(reader, writer)
        work = asyncio.ensure_future(self.behaviour(request, answer))
        closed = asyncio.ensure_future(_end_of(reader))
        await asyncio.wait({work, closed}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            closed.cancel()
            with suppress(asyncio.CancelledError):
                await closed
            if isinstance(work.exception(), ConnectionError):
                return False
            work.result()
            return True
        answer.gone.set()
        work.cancel()
        with suppress(asyncio.CancelledError, ConnectionError):
            await work
        return False

    async def _change(self, opened: int = 0) -> None:
        async with self.changed:
            self.open += opened
            self.accepted += max(opened, 0)
            self.changed.notify_all()


@asynccontextmanager
async def provider(
    behaviour: Behaviour = answers,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[Provider, None]:
    """Run a provider with this behaviour until the block ends."""
    one = Provider(behaviour, host, port, tls)
    await one.start()
    try:
        yield one
    finally:
        await one.stop()


async def _end_of(reader: asyncio.StreamReader) -> None:
    """Wait until the caller closes the connection, without reading further requests."""
    while not reader.at_eof() and reader.exception() is None:  # noqa: ASYNC110  it has no event
        await asyncio.sleep(0.005)


async def _read(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    line, *fields = head.strip().split("\r\n")
    method, path, _ = line.split(" ")
    headers = {name.lower(): value for name, _, value in (f.partition(": ") for f in fields)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method=method, path=path, headers=headers, body=body, lines=tuple(fields))
