"""Real requests to a real vendor that fails: what becomes of its errors in events, page and log."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = pytest.mark.anyio

KEY = "key-of-the-operator"
CONFIG = """
auth: {{admin_key: key-of-the-operator}}
providers: [{{name: p, adapter: openai, base_url: "{url}", api_key: k}}]
models:
  - {{name: chat, retry: {{attempts: 1}}, backends: [{{provider: p, model: m}}]}}
"""


class Vendor:
    """Answers with this message and status, if there is one."""

    def __init__(self) -> None:
        self.message, self.status = "", 500

    async def __call__(self, request: Received, answer: Answer) -> None:
        if not self.message:
            await answers(request, answer)
            return
        await answer.json({"error": {"message": self.message}}, self.status)


@asynccontextmanager
async def before(
    vendor: Vendor, run_dir: Path
) -> AsyncGenerator[tuple[Serving, httpx.AsyncClient]]:
    async with provider(vendor) as remote:
        async with (
            serving(CONFIG.format(url=remote.base_url), run_dir) as up,
            httpx.AsyncClient(base_url=up.url, timeout=60) as client,
        ):
            yield up, client


async def ask(client: httpx.AsyncClient, text: str, *, stream: bool = False) -> int:
    body = {"model": "chat", "messages": [{"role": "user", "content": text}], "stream": stream}
    return (await client.post("/v1/chat/completions", json=body)).status_code


async def listed(client: httpx.AsyncClient) -> list[dict[str, object]]:
    """Oldest first."""
    headers = {"authorization": f"Bearer {KEY}"}
    return list(reversed((await client.get("/admin/events", headers=headers)).json()["events"]))


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("CUDA out of memory", "p: CUDA out of memory"),
        ("no capacity for sk-proj-AbCdEf0123456789xyz now", "p: no capacity for … now"),
        ("cannot process: My name is Ada Lovelace", ""),
        ('cannot process "my NAME is" because of it', ""),
        ("one\r\nWARNING forged\u2028line \u001b[31m", "p: one WARNING forged line [31m"),
        ("it is broken, " * 100, f"p: {'it is broken, ' * 17}"[:239] + "…"),
    ],
)
async def test_what_a_vendor_says_is_shown_without_keys_and_without_what_the_client_wrote(
    message: str, shown: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    vendor = Vendor()
    vendor.message = message
    with caplog.at_level(logging.INFO, "strowger.backends"):
        async with before(vendor, tmp_path) as (_, client):
            for _ in range(3):
                assert await ask(client, "hello, my name is Ada Lovelace") == 502
            (failing, _) = await listed(client)

    assert (failing["code"], failing["message"]) == ("upstream_failed", shown)
    assert "Ada" not in caplog.text
    assert "sk-proj" not in caplog.text
    assert len(caplog.text.splitlines()) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_an_outage_of_the_only_backend_is_one_story_everywhere(
    stream: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    vendor = Vendor()
    headers = {"authorization": f"Bearer {KEY}"}
    with caplog.at_level(logging.INFO, "strowger.backends"):
        async with before(vendor, tmp_path) as (_, client):
            await ask(client, "hi", stream=stream)
            vendor.message = "down"
            for _ in range(4):
                await ask(client, "hi", stream=stream)
            page = (await client.get("/admin/live", headers=headers)).text
            metrics = (await client.get("/metrics", headers=headers)).text
            vendor.message = ""
            await ask(client, "hi", stream=stream)
            after = (await client.get("/admin/live", headers=headers)).text
            kinds = [one["kind"] for one in await listed(client)]

    band = page.partition('id="problems"')[2].partition("</section>")[0]
    assert kinds == ["failing", "no_backend", "recovered", "backend_again"]
    assert "no backend works" in band
    assert "upstream_failed: p: down" in band
    assert "1 serious problem" in page
    assert page.index('id="problems"') < page.index('id="traffic"') < page.index('id="models"')
    assert page.index('id="models"') < page.index('id="events"')
    assert 'strowger_backend_available{backend="p/m",model="chat"} 0.0' in metrics
    assert 'aria-label="What is wrong now" hidden' in after
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2 + ["INFO"] * 2


async def test_a_client_that_hangs_up_or_writes_nonsense_takes_no_backend_down(
    tmp_path: Path,
) -> None:
    vendor = Vendor()
    vendor.message, vendor.status = "bad request", 400
    async with before(vendor, tmp_path) as (up, client):
        for _ in range(20):
            await ask(client, "hi")
        events = await listed(client)
        phase = up.state.runtime.backends["chat: p/m"].breaker.phase(0.0)

    assert events == []
    assert phase == "up"
