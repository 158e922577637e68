"""Errors that quote what a backend answered are held to the guardrails of answers."""

from pathlib import Path

import httpx
import pytest

from tests.gateway.content.hooks.test_guarded_requests import CHAT, KEY, MESSAGES, SECRETS, body_of
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Behaviour, Received, provider

pytestmark = pytest.mark.anyio


async def unreadable(request: Received, answer: Answer) -> None:
    await answer.json({"choices": KEY})


async def refuses(request: Received, answer: Answer) -> None:
    await answer.json({"error": {"message": f"no {KEY}"}}, status=400)


async def fails(request: Received, answer: Answer) -> None:
    if not request.json.get("stream"):
        await answer.json({"error": {"message": f"no {KEY}"}}, status=500)
        return
    await answer.begin_stream()
    await answer.text("a text that is longer than what waits " * 10)
    await answer.event({"error": {"message": f"no {KEY}", "code": "x"}})


@pytest.mark.parametrize("mode", ["mask", "block", "monitor"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("behaviour", [unreadable, refuses, fails])
async def test_a_secret_in_the_error_of_a_backend_does_not_pass(
    behaviour: Behaviour, path: str, stream: bool, mode: str, tmp_path: Path
) -> None:
    rails = SECRETS.format(mode=mode, where="output")
    async with (
        provider(behaviour) as backend,
        serving(one_model(backend.base_url, rails), tmp_path) as up,
        httpx.AsyncClient(base_url=up.url, timeout=60) as client,
    ):
        body = {**body_of(path, "hi"), "stream": stream}
        answer = await client.post(path, json=body)
        assert "error" in answer.text
        assert (KEY in answer.text) == (mode == "monitor")
        shown = {"mask": "[secret]", "block": "the guardrail 'keys' blocked", "monitor": KEY}
        assert shown[mode] in answer.text
