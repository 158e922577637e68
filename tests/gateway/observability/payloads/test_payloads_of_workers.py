"""`strowger serve` with several workers: each logs what it served, in files of its own."""

import asyncio
import json
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.gateway.commanded import connected
from tests.gateway.forked_commands import forked
from tests.gateway.serving import one_model
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

EACH = 5


async def test_each_worker_writes_its_own_file_and_loses_nothing_on_shutdown(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(provider())
        more = f"""
server: {{workers: 2, drain_delay_s: 0}}
store: {{url: "sqlite:///{tmp_path / "strowger.db"}"}}
logging: {{payloads: {{mode: all, dir: "{tmp_path / "logged"}"}}}}
guardrails: [{{name: words, use: patterns, mode: mask, settings: {{words: [falcon]}}}}]
"""
        config = one_model(backend.base_url, more)
        up = await stack.enter_async_context(forked(tmp_path / "config.yaml", config))
        async with AsyncExitStack() as clients:
            for worker in (0, 1):
                client = await connected(up, clients, worker)
                for number in range(EACH):
                    text = f"worker {worker} falcon" if number == 0 else f"worker {worker}"
                    body = {"model": "chat", "messages": [{"role": "user", "content": text}]}
                    answer = await client.post("/v1/chat/completions", json=body)
                    assert answer.status_code == 200
        up.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(up.process.wait(), 120) == 0

    files = sorted((tmp_path / "logged").iterdir())
    assert [file.name for file in files] == ["payloads-0.jsonl", "payloads-1.jsonl"]
    seen: set[str] = set()
    for file in files:
        records = [json.loads(line) for line in file.read_text().splitlines()]
        assert len(records) == EACH
        assert sum("request" not in record for record in records) == 1, "the masked one"
        texts = {r["request"]["messages"][0]["content"] for r in records if "request" in r}
        assert len(texts) == 1, "each file is of one worker"
        seen |= texts
        assert "falcon" not in file.read_text()
    assert seen == {"worker 0", "worker 1"}
