"""The gateway whose wire is tested: one provider behind it, which answers as a request's user says.

`waits`: the start of a stream, and its end when the test allows it. `is late`: a whole answer, when
the test allows it. `is long`: a whole answer that no buffer holds. `never ends`: a stream of large
pieces for as long as the client takes them.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.gateway.certificates import Issued
from tests.gateway.server.http1.wire import PATIENCE_S, Wire, dial
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

ROOM: Final = 100_000
"""The largest body that the gateway takes."""

SETTINGS: Final = f"""
auth: {{admin_key: key-of-the-operator}}
server: {{max_body_bytes: {ROOM}}}
"""
PIECE: Final = 50_000
CHAT: Final = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
BODY: Final = json.dumps(CHAT).encode()
STREAM: Final = json.dumps({**CHAT, "stream": True}).encode()
WAITS: Final = json.dumps({**CHAT, "stream": True, "user": "waits"}).encode()
IS_LATE: Final = json.dumps({**CHAT, "user": "is late"}).encode()
NEVER_ENDS: Final = json.dumps({**CHAT, "stream": True, "user": "never ends"}).encode()
IS_LONG: Final = json.dumps({**CHAT, "user": "is long"}).encode()
LONG: Final = "".join(map(str, range(1_000_000)))
HOT: Final = "/v1/chat/completions"
INDEX: Final = "/v2/repository/index"
FEEDBACK: Final = "/v1/feedback"
READY: Final = b'{"ready": true}'

BODIES: Final = {HOT: BODY, INDEX: READY}
"""A path that the gateway answers by itself, one that Litestar answers, and a body for each."""


class Front(Struct, kw_only=True, eq=False):
    """The gateway and its provider. pieces: how many the stream that never ends has sent.

    wires: of this test; they are closed at its end. context: of clients, if it serves TLS.
    """

    running: Serving
    remote: Provider
    go_on: asyncio.Event
    wires: list[Wire]
    pieces: int = 0
    context: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        return self.running.url

    @property
    def idle(self) -> bool:
        """Whether no request is under way, and none holds memory."""
        state = self.running.state
        return state.admission.in_flight == 0 == state.shares.buffered

    async def dial(self, *, narrow: bool = False, source: str = "") -> Wire:
        """source: the client's address."""
        wire = await dial(self.url, narrow=narrow, context=self.context, source=source)
        self.wires.append(wire)
        return self.wires[-1]

    async def until_idle(self) -> None:
        """Wait until no request is under way, and none holds memory."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.idle:  # noqa: ASYNC110  no event to wait for
                await asyncio.sleep(0.005)

    async def outcome(self, *pieces: bytes, method: str = "GET") -> tuple[int, bool]:
        """The status of the answer to a request, and whether the connection takes another one.

        If not, the gateway has said so, and closes the connection.
        """
        wire = await self.dial()
        await wire.send(*pieces)
        reply = await wire.reply(method)
        kept = reply["connection"] != "close"
        assert await (wire.kept() if kept else wire.ended())
        return reply.status, kept

    async def behave(self, request: Received, answer: Answer) -> None:
        match request.json.get("user"):
            case "waits":
                await answer.begin_stream()
                await answer.text("hel")
                await self.go_on.wait()
                await answer.text("lo")
                await answer.end_stream()
            case "is late":
                await self.go_on.wait()
                await answer.chat()
            case "is long":
                await answer.chat(LONG)
            case "never ends":
                await answer.begin_stream()
                while True:
                    await answer.text("x" * PIECE)
                    self.pieces += 1
            case _:
                await answers(request, answer)


@asynccontextmanager
async def fronting(
    run_dir: Path, issued: Issued | None = None, settings: str = SETTINGS
) -> AsyncGenerator[Front, None]:
    """Run a gateway and its provider until the block ends. issued: over TLS, with these files."""
    fronts: list[Front] = []

    async def behave(request: Received, answer: Answer) -> None:
        await fronts[0].behave(request, answer)

    async with provider(behave) as remote:
        tls = "" if issued is None else f", tls: {{cert: {issued.cert}, key: {issued.key}}}"
        text = one_model(remote.base_url, settings.replace(f"{ROOM}", f"{ROOM}{tls}"))
        text = text.replace("token_s: 1", "token_s: 20").replace("tokens_s: 1", "tokens_s: 20")
        async with serving(text.replace("total_s: 5", "total_s: 60"), run_dir) as running:
            go_on = asyncio.Event()
            context = None if issued is None else issued.client_context()
            fronts.append(
                Front(running=running, remote=remote, go_on=go_on, wires=[], context=context)
            )
            yield fronts[0]


def post(
    body: bytes = BODY,
    fields: str = "",
    path: str = HOT,
    *,
    version: str = "1.1",
    length: bool = True,
) -> bytes:
    """A POST of JSON. fields: more header lines, each with its end. length: send its length."""
    size = f"content-length: {len(body)}\r\n" if length else ""
    kind = "content-type: application/json\r\n"
    head = f"POST {path} HTTP/{version}\r\nhost: localhost\r\n{kind}{size}{fields}\r\n"
    return head.encode("latin-1") + body


def get(
    target: str = "/v1/models", fields: str = "", *, method: str = "GET", version: str = "1.1"
) -> bytes:
    head = f"{method} {target} HTTP/{version}\r\nhost: localhost\r\n{fields}\r\n"
    return head.encode("latin-1")


def in_chunks(coded: bytes, fields: str = "", path: str = HOT) -> bytes:
    """A POST with a body that is in chunks already."""
    return post(b"", f"transfer-encoding: chunked\r\n{fields}", path, length=False) + coded
