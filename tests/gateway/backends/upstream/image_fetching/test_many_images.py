"""Requests with many images, and many requests: connections and bytes stay within their limits."""

import asyncio
import ssl
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
import trustme

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.backends.upstream.image_fetching.fetcher import ImageFetcher
from strowger_gateway.gateway.backends.upstream.image_fetching.upstream import ImageFetching
from strowger_gateway.gateway.config.schema.connection import Fetch
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import DeadlineExceeded, InvalidRequest
from strowger_gateway.schemas.events import Event, TextDelta
from strowger_gateway.schemas.messages import ImagePart, Message
from strowger_gateway.schemas.requests import ChatRequest, EmbeddingsRequest, GenerateRequest
from tests.stand_ins.doubles import Peer, RawServer, Script, raw_server, sized

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """On asyncio: uvloop waits for the TLS shutdown of connections that the fetcher drops."""
    return "asyncio"


PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


class Backend:
    """Takes images as bytes, and keeps what it got."""

    name = "box"
    supports = Supports(chat=frozenset({"messages.image"}))

    def __init__(self) -> None:
        self.got: list[GenerateRequest] = []

    async def generate(
        self, request: GenerateRequest, call: Call
    ) -> AsyncGenerator[list[Event], None]:
        self.got.append(request)
        yield [TextDelta(text="a cat")]

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        raise NotImplementedError

    async def count_tokens(self, request: ChatRequest, call: Call) -> int:
        raise NotImplementedError

    async def aclose(self) -> None:
        pass


class Rig:
    def __init__(self, server: RawServer, fetcher: ImageFetcher) -> None:
        self.server = server
        self.fetcher = fetcher
        self.backend = Backend()
        self.upstream = ImageFetching(self.backend, fetcher)

    async def ask(self, *paths: str, tenant: str = "", within_s: float = 20) -> None:
        parts = tuple(ImagePart(url=f"{self.server.base_url}/{path}") for path in paths)
        request = ChatRequest(model="m", messages=(Message(role="user", content=parts),))
        call = Call(model="m", deadline=now() + within_s, request_id="r", tenant=tenant)
        async with aclosing(self.upstream.generate(request, call)) as answer:
            async for _ in answer:
                pass


@asynccontextmanager
async def rig(folder: Path, script: Script, **settings: int) -> AsyncGenerator[Rig]:
    authority = trustme.CA()
    ca_file = str(folder / "ca.pem")
    authority.cert_pem.write_to_path(ca_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("images.test").configure_cert(context)  # pyright: ignore[reportUnknownMemberType] - pyOpenSSL is not here

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    config = Fetch(allow=("127.0.0.0/8",), ca_file=ca_file, **settings)  # pyright: ignore[reportArgumentType]
    fetcher = ImageFetcher(config, resolve, settle_s=0)
    async with raw_server(script, tls=context, host="images.test") as server:
        try:
            yield Rig(server, fetcher)
        finally:
            await fetcher.aclose()


class Counting:
    """A script that counts concurrent connections."""

    def __init__(self, answer: bytes) -> None:
        self.now = 0
        self.most = 0
        self._answer = answer

    async def __call__(self, peer: Peer) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await peer.request()
            await asyncio.sleep(0.005)
            await peer.send(self._answer)
        finally:
            self.now -= 1


async def test_a_request_with_many_urls_has_few_connections(tmp_path: Path) -> None:
    script = Counting(sized(PNG, "200 OK", "content-type: image/png"))

    async with rig(tmp_path, script, connections=3) as one:
        await one.ask(*map(str, range(20)))

    assert script.most <= 3
    assert len(one.server.connections) == 20
    assert one.fetcher.lines.held == 0
    assert one.fetcher.memory.held == 0


async def test_many_requests_have_as_many_connections_as_the_gateway_may(tmp_path: Path) -> None:
    script = Counting(sized(PNG, "200 OK", "content-type: image/png"))

    async with rig(tmp_path, script, connections=4, max_connections=6) as one:
        await asyncio.gather(*(one.ask(*(f"{n}/{at}" for at in range(5))) for n in range(5)))

    assert script.most <= 6
    assert len(one.backend.got) == 5


async def test_what_a_request_names_twice_is_fetched_once(tmp_path: Path) -> None:
    script = Counting(sized(PNG, "200 OK", "content-type: image/png"))

    async with rig(tmp_path, script) as one:
        await one.ask(*["cat.png"] * 9)

    assert len(one.server.connections) == 1
    (request,) = one.backend.got
    assert isinstance(request, ChatRequest)
    assert isinstance(request.messages[0].content, tuple)
    assert len(request.messages[0].content) == 9
    assert "data:image/png" in repr(request.messages[0].content[8])


async def test_bytes_are_counted_over_all_images_as_they_arrive(tmp_path: Path) -> None:
    """Sixty images of 1 MB where 2 MB are allowed: without a content-length, so nothing warns."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\n\r\n"
    script = Counting(head + PNG + bytes(1_000_000))

    async with rig(tmp_path, script, max_bytes=2_000_000, connections=8) as one:
        tracemalloc.start()
        try:
            with pytest.raises(InvalidRequest, match="may have at most 2000000 bytes"):
                await one.ask(*map(str, range(60)))
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        left = one.fetcher.memory.held

    assert most < 30_000_000
    assert len(one.server.connections) < 20
    assert left == 0


async def test_requests_wait_for_memory_until_their_deadline(tmp_path: Path) -> None:
    async def silent(peer: Peer) -> None:
        await peer.request()
        await peer.stay()

    async with rig(tmp_path, silent, max_bytes=100, max_total_bytes=100) as one:
        first = asyncio.create_task(one.ask("a", within_s=5))
        await asyncio.sleep(0.05)
        with pytest.raises(DeadlineExceeded):
            await one.ask("b", within_s=0.1)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    assert len(one.server.connections) == 1
    assert one.fetcher.memory.held == 0


async def test_a_compressed_answer_is_refused(tmp_path: Path) -> None:
    answer = sized(PNG, "200 OK", "content-type: image/png", "content-encoding: gzip")

    async with rig(tmp_path, Counting(answer)) as one:
        with pytest.raises(InvalidRequest, match="is compressed"):
            await one.ask("a")
        (peer,) = one.server.connections

    assert peer.requests[0].headers["accept-encoding"] == "identity"
