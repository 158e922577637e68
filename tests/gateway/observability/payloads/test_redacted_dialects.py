"""Patterns find a secret in payloads of every dialect, however its streams split it."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import httpx
import msgspec
import pytest

from strowger_gateway.gateway.observability.payloads.part import PayloadsSide
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

Json = dict[str, object]
SECRET = "sk-abcdefghijkl"
PIECES = ("key: ", SECRET[:5], SECRET[5:], " end")
CONTENTS: Json = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
TURNS: Json = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
PROMPT: Json = {"model": "chat", "prompt": "hi"}
GEMINI = "/v1beta/models/chat:streamGenerateContent"


async def behaves(request: Received, answer: Answer) -> None:
    await answer.stream(*PIECES)


class Rig:
    def __init__(self, gateway: Serving, web: httpx.AsyncClient, file: Path) -> None:
        self.gateway, self.web, self._file = gateway, web, file

    async def record_of(self, answer: httpx.Response) -> str:
        await self.gateway.state.side(PayloadsSide).close(20)
        id = answer.headers["x-gateway-request-id"]
        (line,) = [one for one in self._file.read_text().splitlines() if id in one]
        return line


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig, None]:
    folder = tmp_path_factory.mktemp("logged")
    rules = "redact: [{pattern: 'sk-[a-z]+', replacement: KEY}]"
    text = f"logging: {{payloads: {{dir: '{folder}', mode: all, {rules}}}}}\n"
    async with (
        provider(behaves) as backend,
        serving(one_model(backend.base_url, text), tmp_path_factory.mktemp("run")) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as web,
    ):
        yield Rig(gateway, web, folder / "payloads-0.jsonl")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{GEMINI}?alt=sse", CONTENTS),
        (GEMINI, CONTENTS),
        ("/api/chat", TURNS),
        ("/api/generate", PROMPT),
        ("/v1/messages", {**TURNS, "stream": True, "max_tokens": 9}),
        ("/v1/responses", {"model": "chat", "input": "hi", "stream": True}),
    ],
    ids=["gemini", "gemini list", "ollama", "ollama prompt", "messages", "responses"],
)
async def test_a_secret_that_a_stream_splits_is_redacted(rig: Rig, path: str, body: Json) -> None:
    answer = await rig.web.post(path, json=body)
    record = await rig.record_of(answer)

    assert answer.status_code == 200, answer.text
    assert "key: KEY end" in record
    assert "ijkl" not in record
    assert "omitted" not in msgspec.json.decode(record, type=Json)


async def test_a_conversation_in_integers_is_not_logged(rig: Rig) -> None:
    """Ollama's `context`, which has the whole text."""
    answer = await rig.web.post("/api/generate", json=PROMPT)
    lines = [msgspec.json.decode(line, type=Json) for line in answer.text.splitlines()]
    kept = lines[-1]["context"]
    again = await rig.web.post("/api/generate", json={**PROMPT, "context": kept})
    records = [msgspec.json.decode(await rig.record_of(one), type=Json) for one in (answer, again)]

    assert cast("list[int]", kept)
    assert [cast(Json, one["response"])["context"] for one in records] == ["[redacted]"] * 2
    assert cast(Json, records[1]["request"])["context"] == "[redacted]"


async def test_reasoning_that_travels_with_the_client_is_not_logged(rig: Rig) -> None:
    part: Json = {"text": "x", "thoughtSignature": "c2stYWJjZGVmZ2hpamts"}
    turns = [*cast("list[Json]", CONTENTS["contents"]), {"role": "model", "parts": [part]}]
    body: Json = {"contents": [*turns, *turns[:1]]}

    answer = await rig.web.post(f"{GEMINI}?alt=sse", json=body)

    record = await rig.record_of(answer)
    assert '"thoughtSignature":"[redacted]"' in record
    assert "c2stYWJj" not in record
