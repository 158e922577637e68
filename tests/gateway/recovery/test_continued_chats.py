"""A chat's stream breaks off after content, and the next backend continues its text."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio


def config(url: str, *adapters: str, model_more: str = "") -> str:
    providers = "\n".join(
        f"  - {{name: p{place}, adapter: {adapter}, base_url: {url}/{place}/v1, api_key: k}}"
        for place, adapter in enumerate(adapters)
    )
    backends = ", ".join(f"{{provider: p{place}, model: m}}" for place in range(len(adapters)))
    return f"""
providers:
{providers}
models:
  - name: chat
    policy: in_order
    stream_recovery: continue
    retry: {{backoff_s: 0.01, max_backoff_s: 0.05}}
    backends: [{backends}]
    {model_more}
"""


async def test_a_cut_stream_ends_in_a_complete_answer(tmp_path: Path) -> None:
    received: list[Received] = []

    async def behave(request: Received, answer: Answer) -> None:
        received.append(request)
        if request.path.startswith("/0/"):
            await answer.begin_stream()
            await answer.text("The cat ")
            await answer.text("sat on")
            await asyncio.sleep(0.02)
            answer.close()
            return
        await answer.stream(" the", " mat.")

    async with provider(behave) as remote:
        async with serving(config(remote.origin, "vllm", "vllm"), tmp_path) as gateway:
            body = {
                "model": "chat",
                "stream": True,
                "max_tokens": 20,
                "stream_options": {"include_usage": True},
                "messages": [{"role": "user", "content": "Where?"}],
            }
            async with httpx.AsyncClient() as client:
                got = await client.post(f"{gateway.url}/v1/chat/completions", json=body)
            print(got.text)
            (line,) = gateway.access_lines()
            print(line)
    frames = [json.loads(one[6:]) for one in got.text.split("\n\n") if one.startswith("data: {")]
    text = "".join(c["delta"].get("content") or "" for f in frames for c in f["choices"])
    assert text == "The cat sat on the mat."
    sent = received[1].json
    print(sent)
    assert sent["messages"][-1] == {"role": "assistant", "content": "The cat sat on"}
    assert sent["continue_final_message"] is True
    assert sent["add_generation_prompt"] is False
    assert sent["max_tokens"] == 16
