"""A gateway in front of the fake MindIE server, and requests of its clients."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from msgspec import Struct

from tests.gateway.serving import Serving, serving
from tests.stand_ins.mindie_model import Speaker, says
from tests.stand_ins.mindie_server import Fault, MindIEServer, mindie_server


class Pair(Struct, frozen=True, kw_only=True, eq=False):
    """A gateway and the server behind it."""

    gateway: Serving
    server: MindIEServer

    async def post(self, path: str, body: object) -> httpx.Response:
        async with httpx.AsyncClient(timeout=60) as client:
            return await client.post(f"{self.gateway.url}{path}", json=body, timeout=60)

    async def chat(self, **more: object) -> httpx.Response:
        messages = [{"role": "user", "content": "hi"}]
        return await self.post(
            "/v1/chat/completions", {"model": "chat", "messages": messages, **more}
        )

    async def text(self, **more: object) -> httpx.Response:
        return await self.post("/v1/completions", {"model": "chat", "prompt": "hi there", **more})

    async def tokens(self, stream: bool = False, **parameters: object) -> httpx.Response:
        body = {"input_id": [5, 6, 7], "stream": stream, "parameters": parameters}
        return await self.post("/infer_token", body)

    async def hang_up(self, path: str, body: object, after: bytes, *, asked: int = 1) -> None:
        """Ask, wait until `after` has come and the server has so many requests, and leave."""
        port = int(self.gateway.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: [::1]\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
        await reader.readuntil(after)
        await self.server.raw.until(lambda: len(self.server.requests) >= asked)
        writer.close()


def configured(base_url: str, provider_more: str = "", model_more: str = "") -> str:
    return f"""
providers:
  - name: ascend
    adapter: mindie
    base_url: {base_url}
    timeouts: {{connect_s: 20, first_token_s: 2, between_tokens_s: 2, total_s: 10}}
{provider_more}
models:
  - name: chat
    retry: {{backoff_s: 0.01, max_backoff_s: 0.05}}
    backends: [{{provider: ascend, model: tiny-mindie}}]
{model_more}
"""


@asynccontextmanager
async def pair(
    run_dir: Path,
    *,
    faults: Sequence[Fault] = (),
    speaker: Speaker = says,
    cut: int | None = None,
    old: bool = False,
    gap_s: float = 0.0,
    tls: ssl.SSLContext | None = None,
    provider_more: str = "",
    model_more: str = "",
) -> AsyncGenerator[Pair, None]:
    async with mindie_server(
        faults=faults, speaker=speaker, cut=cut, old=old, gap_s=gap_s, tls=tls
    ) as server:
        config = configured(server.base_url, provider_more, model_more)
        async with serving(config, run_dir) as gateway:
            yield Pair(gateway=gateway, server=server)


def chunks(response: httpx.Response) -> list[dict[str, object]]:
    """The JSON of a stream's frames, `[DONE]` left out."""
    lines = [line.removeprefix("data: ") for line in response.text.splitlines()]
    return [json.loads(line) for line in lines if line and line != "[DONE]"]
