"""A client names an image by URL; a provider that needs the bytes gets the bytes."""

import ssl
from base64 import b64decode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import httpx
import pytest
import trustme
from msgspec import Struct

from tests.gateway.serving import Serving, serving
from tests.stand_ins.doubles import RawServer, answering, raw_server, sized
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
CONFIG = """
server: {{fetch: {{allow: [{allow}], ca_file: {ca_file}, max_bytes: 250}}}}
providers:
  - {{name: box, adapter: ollama, base_url: "{url}"}}
models:
  - {{name: chat, backends: [{{provider: box, model: llava}}]}}
"""


class Behind(Struct, frozen=True, kw_only=True, eq=False):
    gateway: Serving
    box: Provider
    site: RawServer

    async def ask(self, *paths: str) -> httpx.Response:
        parts = [
            {"type": "image_url", "image_url": {"url": f"https://localhost:{self.site.port}{path}"}}
            for path in paths
        ]
        text = {"type": "text", "text": "what is this?"}
        body = {"model": "chat", "messages": [{"role": "user", "content": [text, *parts]}]}
        async with httpx.AsyncClient(base_url=self.gateway.url, timeout=60) as client:
            return await client.post("/v1/chat/completions", json=body)


async def looks(request: Received, answer: Answer) -> None:
    message = {"role": "assistant", "content": "a cat"}
    await answer.json({"model": "llava", "message": message, "done": True, "done_reason": "stop"})


@asynccontextmanager
async def behind(folder: Path, allow: str = "127.0.0.0/8, '::1/128'") -> AsyncGenerator[Behind]:
    authority = trustme.CA()
    ca_file = str(folder / "ca.pem")
    authority.cert_pem.write_to_path(ca_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)  # pyright: ignore[reportUnknownMemberType] - pyOpenSSL is not here
    script = answering(sized(PNG, "200 OK", "content-type: image/png"))
    async with provider(looks) as box, raw_server(script, tls=context) as site:
        url = box.base_url.removesuffix("/v1")
        config = CONFIG.format(allow=allow, ca_file=ca_file, url=url)
        async with serving(config, folder) as gateway:
            yield Behind(gateway=gateway, box=box, site=site)


async def test_the_provider_gets_the_image_itself(tmp_path: Path) -> None:
    async with behind(tmp_path) as both:
        answer = await both.ask("/cat.png", "/dog.png")

    assert answer.status_code == 200, answer.text
    (message,) = cast("list[dict[str, list[str]]]", both.box.requests[0].json["messages"])
    assert [b64decode(image) for image in message["images"]] == [PNG, PNG]
    assert sorted(request.path for request in both.site.requests) == ["/cat.png", "/dog.png"]


async def test_an_image_from_the_inside_is_refused_by_its_place(tmp_path: Path) -> None:
    async with behind(tmp_path, allow="") as both:
        answer = await both.ask("/cat.png")

    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "messages[0].content[1].image_url.url"
    assert error["code"] == "invalid_image_url"
    assert both.site.connections == []
    assert both.box.requests == []


async def test_images_that_are_too_large_together_are_refused(tmp_path: Path) -> None:
    async with behind(tmp_path) as both:
        answer = await both.ask("/1.png", "/2.png", "/3.png")

    assert answer.status_code == 400
    assert "250 bytes" in answer.json()["error"]["message"]
    assert both.box.requests == []
