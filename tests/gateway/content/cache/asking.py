"""Ask a gateway with a cache, and count what reaches its backend."""

import json
from collections.abc import Mapping
from typing import cast

import httpx

from tests.gateway.serving import Serving

Json = dict[str, object]
CHAT: Json = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
ASKS = {"x-gateway-cache": "on"}


async def ask(
    gateway: Serving,
    more: Json | None = None,
    *,
    path: str = "/v1/chat/completions",
    base: Json = CHAT,
    headers: Mapping[str, str] = ASKS,
) -> httpx.Response:
    """Send one request that wants an answer from the cache."""
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        return await client.post(path, json={**base, **(more or {})}, headers=dict(headers))


def shown(answer: httpx.Response) -> str:
    """What the gateway says of the cache; "" for nothing."""
    assert answer.status_code == 200, answer.text
    return answer.headers.get("x-gateway-cache", "")


def text_of(answer: httpx.Response) -> str:
    """The text of a whole chat, or of a streamed one."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        body = cast("dict[str, list[dict[str, Json]]]", answer.json())
        return str(body["choices"][0]["message"]["content"])
    frames = [
        cast("dict[str, list[dict[str, Json]]]", json.loads(line[6:]))
        for line in answer.text.split("\n")
        if line.startswith("data: {")
    ]
    return "".join(
        str(one["delta"].get("content") or "") for frame in frames for one in frame["choices"]
    )
