"""A fake MindIE server on loopback, as documented, with the documented faults.

    async with mindie_server() as server:
        ...  # a provider `adapter: mindie`, `base_url: {server.base_url}`
    server.bodies("/infer_token")        # the received requests, as JSON

    async with mindie_server(faults=[Answered(503), Abort(after=2)]) as server:
        ...  # the first two requests fail as listed, the third gets an answer

It serves /infer_token, /generate, /generate_stream and /v1/chat/completions, checks its input as
MindIE does, and answers with `tests.stand_ins.mindie_model`. `cut` is a seed for cutting every
answer's bytes at random places; `old` answers tokens in the older format; `gap_s` is the time in
seconds between the frames of a stream, so that a client receives them one by one. `tls` may require
a client certificate; `server.connections` has it.
"""

import asyncio
import json
import random
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal, cast

from msgspec import Struct

from tests.stand_ins.doubles import Peer, RawServer, raw_server
from tests.stand_ins.mindie_answers import ChatAnswer, TextAnswer, TokenAnswer
from tests.stand_ins.mindie_checks import Refusal, check_chat, check_text, check_tokens
from tests.stand_ins.mindie_model import Speaker, says, tokens_of
from tests.stand_ins.provider import Received

Json = Mapping[str, object]

MODEL = "tiny-mindie"
KINDS = {
    400: "Bad Request",
    404: "NotFoundError",
    422: "Input Validation Error",
    424: "Generation Error",
    429: "Too Many Requests",
    500: "Incomplete Generation",
    503: "Service Unavailable",
}


class Answered(Struct, frozen=True):
    """A status of 400 or more, in MindIE's envelope. field: the name of the error type's field."""

    status: int
    error: str = "the engine is not well"
    field: Literal["error_type", "type"] = "error_type"


class Abort(Struct, frozen=True):
    """Aborts the answer after so many tokens, with a finish reason that shows it."""

    after: int = 0
    word: str = "stop_sequence"


class Bare(Struct, frozen=True):
    """Sends, after so many tokens of a stream, an error without `data:` inside the 200."""

    after: int = 0
    body: str = '{"error":"Failed to get engine response.","error_type":"Incomplete Generation"}'


class Cut(Struct, frozen=True):
    """Ends the answer after so many frames, a complete answer in its middle.

    The connection is closed, or reset. orderly: a stream's HTTP body still ends properly.
    """

    after: int = 1
    reset: bool = False
    orderly: bool = False


class Hang(Struct, frozen=True):
    """Sends nothing after so many tokens, until the client disconnects."""

    after: int = 0


class Refuse(Struct, frozen=True):
    """Resets the connection before the first byte of the answer."""


Fault = Answered | Abort | Bare | Cut | Hang | Refuse
AnyAnswer = TokenAnswer | TextAnswer | ChatAnswer


class MindIEServer:
    """The server as seen by a test: `requests` and `connections` in order of arrival.

    left: exchanges that the client ended before the answer was complete.
    """

    def __init__(
        self,
        model: str,
        speaker: Speaker,
        faults: Sequence[Fault],
        cut: int | None,
        *,
        old: bool,
        gap_s: float,
    ) -> None:
        self.model = model
        self._gap_s = gap_s
        self._old = old
        self.faults = list(faults)
        self.left = 0
        self._speaker = speaker
        self._cuts = None if cut is None else random.Random(cut)
        self._raw: RawServer | None = None

    @property
    def raw(self) -> RawServer:
        assert self._raw is not None
        return self._raw

    @property
    def base_url(self) -> str:
        return self.raw.base_url

    @property
    def requests(self) -> list[Received]:
        return self.raw.requests

    @property
    def connections(self) -> list[Peer]:
        return self.raw.connections

    def bodies(self, path: str) -> list[dict[str, object]]:
        return [one.json for one in self.requests if one.path == path]

    def listen(self, raw: RawServer) -> None:
        self._raw = raw

    async def script(self, peer: Peer) -> None:
        """Handle one connection, for raw_server."""
        while True:
            request = await peer.request()
            fault = self.faults.pop(0) if self.faults else None
            try:
                await self._answer(peer, request, fault)
            except ConnectionError:
                self.left += 1
                raise

    async def _answer(self, peer: Peer, request: Received, fault: Fault | None) -> None:
        match fault:
            case Refuse():
                peer.reset()
                return
            case Answered():
                body = {"error": fault.error, fault.field: KINDS.get(fault.status, "Error")}
                await self._whole(peer, json.dumps(body), fault.status)
                return
            case _:
                pass
        answer = self._understand(request)
        if isinstance(answer, Refusal):
            error = {"error": answer.error, "error_type": answer.kind}
            await self._whole(peer, json.dumps(error), answer.status)
            return
        if isinstance(fault, Abort):
            answer.abort(fault.after, fault.word)
        if answer.streams:
            await self._stream(peer, answer, fault)
        elif isinstance(fault, Hang):
            await self._hang(peer)
        elif isinstance(fault, Cut):
            await self._cut_whole(peer, answer.whole(), fault)
        else:
            await self._whole(peer, answer.whole(), 200)

    def _understand(self, request: Received) -> AnyAnswer | Refusal:
        try:
            body = request.json
        except ValueError:
            return Refusal(status=400, error="Failed to parse body", kind="Bad Request")
        match request.path:
            case "/infer_token":
                wrong = check_tokens(body)
                ids = body.get("input_id") or tokens_of(str(body.get("inputs")))
                prompt = cast("list[int]", ids)
                return wrong or TokenAnswer(body, self._speaker(prompt), old=self._old)
            case "/generate" | "/generate_stream":
                wrong = check_text(body)
                prompt = tokens_of(str(body.get("inputs")))
                streams = request.path.endswith("stream")
                return wrong or TextAnswer(body, self._speaker(prompt), len(prompt), streams)
            case "/v1/chat/completions":
                wrong = check_chat(body, self.model)
                prompt = tokens_of(json.dumps(body.get("messages")))
                return wrong or ChatAnswer(body, self._speaker(prompt), len(prompt))
            case _:
                return Refusal(status=404, error="Not found.", kind="NotFoundError")

    async def _stream(self, peer: Peer, answer: AnyAnswer, fault: Fault | None) -> None:
        await peer.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        for place, frame in enumerate(answer.frames()):
            match fault:
                case Bare() if place == fault.after:
                    await self._chunks(peer, fault.body.encode())
                    await peer.send(b"0\r\n\r\n")
                    return
                case Hang() if place == fault.after:
                    await self._hang(peer)
                case Cut() if place == fault.after:
                    await self._end(peer, fault)
                    return
                case _:
                    await self._chunks(peer, frame.encode())
                    await asyncio.sleep(self._gap_s)
        await peer.send(b"0\r\n\r\n")

    async def _chunks(self, peer: Peer, data: bytes) -> None:
        for piece in self._pieces(data):
            await peer.send(b"%x\r\n%b\r\n" % (len(piece), piece))

    async def _whole(self, peer: Peer, body: str, status: int) -> None:
        data = body.encode()
        close = "connection: close\r\n" if status != 200 else ""
        head = (
            f"HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\n"
            f"content-length: {len(data)}\r\n{close}\r\n"
        )
        for piece in self._pieces(head.encode() + data):
            await peer.send(piece)
            await asyncio.sleep(0)
        if close:
            await peer.close()

    async def _cut_whole(self, peer: Peer, body: str, fault: Cut) -> None:
        data = body.encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(data)}"
        await peer.send(f"{head}\r\n\r\n".encode() + data[: len(data) // 2])
        await self._end(peer, fault)

    async def _end(self, peer: Peer, fault: Cut) -> None:
        if fault.orderly:
            await peer.send(b"0\r\n\r\n")
        if fault.reset:
            peer.reset()
        await peer.close()

    async def _hang(self, peer: Peer) -> None:
        await peer.stay()
        raise ConnectionResetError("the client has left")

    def _pieces(self, data: bytes) -> list[bytes]:
        """Return everything, or pieces cut anywhere, even inside characters and line ends."""
        if self._cuts is None or len(data) < 2:
            return [data]
        count = self._cuts.randint(1, min(4, len(data) - 1))
        places = sorted(self._cuts.sample(range(1, len(data)), count))
        ends = [*places, len(data)]
        return [data[start:end] for start, end in zip([0, *places], ends, strict=True)]


@asynccontextmanager
async def mindie_server(
    *,
    model: str = MODEL,
    speaker: Speaker = says,
    faults: Sequence[Fault] = (),
    cut: int | None = None,
    old: bool = False,
    gap_s: float = 0.0,
    tls: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
) -> AsyncGenerator[MindIEServer, None]:
    """Run a server until the block ends. host: the name of 127.0.0.1 in its base_url."""
    server = MindIEServer(model, speaker, faults, cut, old=old, gap_s=gap_s)
    async with raw_server(server.script, tls=tls, host=host) as raw:
        server.listen(raw)
        yield server
