"""What guardrails mask or block is in no payload record."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import httpx
import pytest

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.observability.payloads.part import PayloadsSide
from tests.gateway.content.hooks.test_guarded_requests import MESSAGES, PATHS, body_of
from tests.gateway.observability.payloads.test_payload_logging import Json, config, logged
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

KEY = "AKIA" + "Q3" * 8
RAIL = "guardrails: [{{name: keys, use: secrets, mode: {mode}, where: {where}{more}}}]\n"


def rail(mode: str, where: str = "both", more: str = "") -> str:
    return RAIL.format(mode=mode, where=where, more=more)


async def ask(gateway: Serving, path: str, text: str, **more: object) -> httpx.Response:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        return await client.post(path, json={**body_of(path, text), **more})


async def echoes(request: Received, answer: Answer) -> None:
    """Gives a key away in an answer, split in a stream."""
    if "prompt" in request.json:
        choice = {"index": 0, "text": f"it is {KEY}", "finish_reason": "stop"}
        await answer.json({"id": "c", "object": "text_completion", "choices": [choice]})
    elif request.json.get("stream"):
        await answer.stream("it is ", KEY[:5], KEY[5:])
    else:
        await answer.chat(f"it is {KEY}")


@pytest.mark.parametrize("mode", ["mask", "block"])
async def test_a_request_with_a_finding_is_not_written_on_any_surface(
    mode: str, tmp_path: Path
) -> None:
    async with provider() as backend:
        text = config(backend.base_url, tmp_path, "mode: all", rail(mode))
        async with serving(text, tmp_path) as gateway:
            for path in PATHS:
                found = await ask(gateway, path, f"my key is {KEY}")
                assert found.status_code == (200 if mode == "mask" else 400)
            await ask(gateway, MESSAGES, "nothing of the kind")
            await gateway.state.side(PayloadsSide).close(20)

    *held, fine = logged(tmp_path)
    assert len(held) == len(PATHS)
    for record in held:
        assert record["omitted"] == ["request"]
        assert "request" not in record
        assert record["guardrails"] == [f"keys/aws_access_key_id:{mode}"]
        assert record["response"], "what the client got is there"
    assert cast(Json, fine["request"])["messages"]
    assert "omitted" not in fine
    assert KEY not in (tmp_path / "logged" / "payloads-0.jsonl").read_text()


async def test_answers_are_written_as_the_client_got_them(tmp_path: Path) -> None:
    async with provider(echoes) as backend:
        text = config(backend.base_url, tmp_path, "mode: all", rail("mask", "output"))
        async with serving(text, tmp_path) as gateway:
            for path in PATHS:
                for stream in (False, *([True] if path != "/v1/completions" else [])):
                    assert KEY not in (await ask(gateway, path, "hi", stream=stream)).text
            await gateway.state.side(PayloadsSide).close(20)

    records = logged(tmp_path)
    assert len(records) == 2 * len(PATHS) - 1
    assert all("request" in record for record in records), "requests are not examined"
    written = (tmp_path / "logged" / "payloads-0.jsonl").read_text()
    assert KEY not in written
    assert KEY[5:] not in written


async def test_a_request_that_guardrails_never_saw_is_not_written(tmp_path: Path) -> None:
    async with provider() as backend:
        text = config(backend.base_url, tmp_path, "mode: errors", rail("mask"))
        async with serving(text, tmp_path) as gateway:
            body = {**body_of(MESSAGES, KEY), "model": "unknown"}
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                assert (await client.post(MESSAGES, json=body)).status_code == 404
                broken = f'{{"model": "chat", "messages": [{{"content": "{KEY}"'
                headers = {"content-type": "application/json"}
                sent = await client.post(MESSAGES, content=broken.encode(), headers=headers)
                assert sent.status_code == 400
            await gateway.state.side(PayloadsSide).close(20)

    records = logged(tmp_path)
    assert [record["omitted"] for record in records] == [["request"], ["request"]]
    assert KEY not in (tmp_path / "logged" / "payloads-0.jsonl").read_text()


async def test_a_request_that_a_removed_guardrail_blocks_is_not_written(tmp_path: Path) -> None:
    """The guardrail is removed while the body arrives; the request is still held to it."""
    async with provider() as backend:
        text = config(backend.base_url, tmp_path, "mode: all", rail("block"))
        async with serving(text, tmp_path) as gateway:
            without = config(backend.base_url, tmp_path, "mode: all")
            later = Runtime(read_config(without, source="c", env={}), run_dir=tmp_path)

            async def body() -> AsyncGenerator[bytes, None]:
                whole = json.dumps(body_of(MESSAGES, f"{KEY} {'x ' * 200_000}")).encode()
                yield whole[:300_000]
                while not gateway.state.admission.in_flight:  # noqa: ASYNC110  its first step
                    await asyncio.sleep(0.01)
                gateway.state.use_runtime(later)
                yield whole[300_000:]

            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                headers = {"content-type": "application/json"}
                sent = await client.post(MESSAGES, content=body(), headers=headers)
                assert sent.status_code == 400
                assert "blocked the request" in sent.text
            await gateway.state.side(PayloadsSide).close(20)
            await later.close()

    [record] = logged(tmp_path)
    assert record["omitted"] == ["request"]


@pytest.mark.parametrize(
    "guardrail", [rail("monitor"), rail("mask", more=", who: {key: other}"), rail("mask", "output")]
)
async def test_guardrails_that_mask_nothing_of_a_request_withhold_nothing(
    guardrail: str, tmp_path: Path
) -> None:
    async with provider() as backend:
        text = config(backend.base_url, tmp_path, "mode: all", guardrail)
        async with serving(text, tmp_path) as gateway:
            await ask(gateway, MESSAGES, f"my key is {KEY}")
            await gateway.state.side(PayloadsSide).close(20)

    (record,) = logged(tmp_path)
    assert "omitted" not in record
    assert KEY in str(record["request"])
