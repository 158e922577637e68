"""Log probabilities that a backend of the Responses API sends although no client asked."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
import pytest

from tests.gateway.content.hooks.test_guarded_requests import KEY, RESPONSES, SECRETS, body_of
from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

Json = Mapping[str, object]
HALVES = (KEY[:9], KEY[9:])
TOKENS: Sequence[Json] = [
    {"token": half, "logprob": -0.5, "bytes": list(half.encode()), "top_logprobs": []}
    for half in HALVES
]
PART: Json = {"type": "output_text", "text": KEY, "annotations": [], "logprobs": TOKENS}
ITEM: Json = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [PART],
}
RESPONSE: Json = {
    "id": "r",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "status": "completed",
}
AT: Json = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
CONFIG = """
providers: [{{name: items, adapter: openai-responses, base_url: "{url}/v1", api_key: k}}]
models: [{{name: chat, backends: [{{provider: items, model: m}}]}}]
"""


async def behaviour(request: Received, answer: Answer) -> None:
    whole: Json = {**RESPONSE, "output": [ITEM]}
    if not request.json.get("stream"):
        await answer.json(whole)
        return
    begun: Json = {**RESPONSE, "status": "in_progress", "output": []}
    empty: Json = {**ITEM, "status": "in_progress", "content": []}
    events: Sequence[tuple[str, Json]] = (
        ("created", {"response": begun}),
        ("output_item.added", {"output_index": 0, "item": empty}),
        ("content_part.added", {**AT, "part": {**PART, "text": "", "logprobs": []}}),
        ("output_text.delta", {**AT, "delta": KEY, "logprobs": TOKENS}),
        ("output_text.done", {**AT, "text": KEY, "logprobs": TOKENS}),
        ("content_part.done", {**AT, "part": PART}),
        ("output_item.done", {"output_index": 0, "item": ITEM}),
        ("completed", {"response": whole}),
    )
    await answer.begin_stream()
    for name, fields in events:
        await answer.event({"type": f"response.{name}", **fields})
    await answer.end_stream(None)


@pytest.mark.parametrize("stream", [False, True])
async def test_they_repeat_no_text_that_is_masked(stream: bool, tmp_path: Path) -> None:
    async with provider(behaviour) as upstream, httpx.AsyncClient(timeout=60) as client:
        config = CONFIG.format(url=upstream.origin) + SECRETS.format(mode="mask", where="output")
        async with serving(config, tmp_path) as up:
            body = {**body_of(RESPONSES, "hello"), "stream": stream}
            answer = await client.post(f"{up.url}{RESPONSES}", json=body, timeout=60)
            assert answer.status_code == 200, answer.text
            assert "[secret]" in answer.text
            assert KEY not in answer.text
            assert not any(json.dumps(half) in answer.text for half in HALVES)
