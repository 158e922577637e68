"""Bodies of requests and answers in files and at the collector, redacted."""

import asyncio
import gzip
import json
import stat
from pathlib import Path
from typing import cast

import httpx
import msgspec
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.observability.payloads.part import PayloadsSide
from strowger_gateway.gateway.observability.tracing.part import TracingSide
from strowger_gateway.gateway.routing.request_record import MAX_CAPTURED
from tests.gateway.observability.otlp.fake_collector import otlp_collector, refuses, values
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = pytest.mark.anyio

Json = dict[str, object]
SECRET = "sk-abcdefghijkl"


def config(provider_url: str, folder: Path, payloads: str, more: str = "") -> str:
    text = f"logging: {{payloads: {{dir: '{folder / 'logged'}', {payloads}}}}}\n{more}"
    return one_model(provider_url, text)


async def ask(gateway: Serving, text: str = "hi", *, stream: bool = False) -> httpx.Response:
    body = {
        "model": "chat",
        "stream": stream,
        "messages": [{"role": "user", "content": text}],
    }
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        return await client.post("/v1/chat/completions", json=body)


def logged(folder: Path) -> list[Json]:
    """The records in the file of the first worker."""
    file = folder / "logged" / "payloads-0.jsonl"
    if not file.exists():
        return []
    return [cast(Json, json.loads(line)) for line in file.read_bytes().splitlines()]


def counted(gateway: Serving) -> dict[str, float | None]:
    read = gateway.state.log.metrics.registry.get_sample_value
    names = ("written", "dropped", "failed")
    return {one: read("strowger_payloads_total", {"outcome": one}) for one in names}


async def fails(request: Received, answer: Answer) -> None:
    await answer.json({"error": {"message": "no"}}, 400)


def says(*texts: str) -> object:
    """A provider's behaviour: a stream of these pieces."""

    async def behave(request: Received, answer: Answer) -> None:
        await answer.stream(*texts)

    return behave


async def test_all_logs_requests_and_answers_as_the_client_saw_them(tmp_path: Path) -> None:
    async with provider() as backend:
        text = config(backend.base_url, tmp_path, "mode: all")
        async with serving(text, tmp_path) as gateway:
            answer = await ask(gateway, "hello there")
            await gateway.state.side(PayloadsSide).close(20)
            assert counted(gateway) == {"written": 1, "dropped": 0, "failed": 0}

    (record,) = logged(tmp_path)
    assert record["request_id"] == answer.headers["x-gateway-request-id"]
    assert (record["status"], record["model"], record["backend"]) == (200, "chat", "remote/m-1")
    request = cast(Json, record["request"])
    assert request["messages"] == [{"role": "user", "content": "hello there"}]
    assert record["response"] == answer.json()
    assert record["response_bytes"] == len(answer.content)
    file = tmp_path / "logged" / "payloads-0.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_off_and_requests_that_succeed_in_mode_errors_are_not_logged(tmp_path: Path) -> None:
    async with provider() as backend:
        for mode in ("off", "errors"):
            text = config(backend.base_url, tmp_path, f"mode: {mode}")
            async with serving(text, tmp_path) as gateway:
                assert (await ask(gateway)).status_code == 200
                await gateway.state.side(PayloadsSide).close(20)
                assert mode == "off" or counted(gateway)["written"] == 0

    assert logged(tmp_path) == []


async def test_errors_are_logged_with_what_the_client_got(tmp_path: Path) -> None:
    async with provider(fails) as backend:
        text = config(backend.base_url, tmp_path, "mode: errors")
        async with serving(text, tmp_path) as gateway:
            answer = await ask(gateway)
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                broken = await client.post(
                    "/v1/chat/completions",
                    content=b"{no json",
                    headers={"content-type": "application/json"},
                )
            await gateway.state.side(PayloadsSide).close(20)

    first, second = logged(tmp_path)
    assert (first["status"], first["response"]) == (answer.status_code, answer.json())
    assert (second["status"], second["request"]) == (broken.status_code, "{no json")


async def test_the_events_of_a_stream_are_joined(tmp_path: Path) -> None:
    async with provider() as backend:
        text = config(backend.base_url, tmp_path, "mode: all")
        async with serving(text, tmp_path) as gateway:
            assert (await ask(gateway, stream=True)).status_code == 200
            await gateway.state.side(PayloadsSide).close(20)

    (record,) = logged(tmp_path)
    response = cast("dict[str, list[Json]]", record["response"])
    (choice,) = response["choices"]
    assert cast(Json, choice["delta"])["content"] == "hello"
    assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize("cut", [1, 7, len(SECRET) - 1])
async def test_a_secret_that_a_stream_splits_is_redacted(tmp_path: Path, cut: int) -> None:
    behaviour = says("key: ", SECRET[:cut], SECRET[cut:], " end")
    async with provider(behaviour) as backend:  # pyright: ignore[reportArgumentType]
        rules = "redact: [{pattern: 'sk-[a-z]+', replacement: KEY}]"
        text = config(backend.base_url, tmp_path, f"mode: all, {rules}")
        async with serving(text, tmp_path) as gateway:
            assert SECRET in "".join(
                json.loads(line[6:])["choices"][0]["delta"].get("content", "")
                for line in (await ask(gateway, SECRET, stream=True)).text.splitlines()
                if line.startswith("data: {") and json.loads(line[6:])["choices"]
            ), "the client gets what was generated"
            await gateway.state.side(PayloadsSide).close(20)

    written = (tmp_path / "logged" / "payloads-0.jsonl").read_text()
    (record,) = logged(tmp_path)
    response = cast("dict[str, list[dict[str, Json]]]", record["response"])
    assert response["choices"][0]["delta"]["content"] == "key: KEY end"
    assert "sk-" not in written
    assert "ijkl" not in written


@pytest.mark.parametrize("stream", [False, True])
async def test_log_probabilities_do_not_repeat_what_a_pattern_redacts(
    stream: bool, tmp_path: Path
) -> None:
    tokens: list[Json] = [{"token": one, "logprob": -0.1} for one in (SECRET[:6], SECRET[6:])]
    logprobs: Json = {"content": tokens, "refusal": None}

    async def behave(request: Received, answer: Answer) -> None:
        said: Json = {"role": "assistant", "content": SECRET}
        choice: Json = {"index": 0, "logprobs": logprobs, "finish_reason": "stop"}
        if stream:
            await answer.begin_stream()
            await answer.event({"id": "c", "choices": [{**choice, "delta": said}]})
            await answer.end_stream(None)
        else:
            await answer.json({"id": "c", "choices": [{**choice, "message": said}]})

    async with provider(behave) as backend:
        rules = "redact: [{pattern: 'sk-[a-z]{12}', replacement: KEY}]"
        text = config(backend.base_url, tmp_path, f"mode: all, {rules}")
        async with serving(text, tmp_path) as gateway:
            body = {"model": "chat", "logprobs": True, "stream": stream,
                    "messages": [{"role": "user", "content": "hi"}]}  # fmt: skip
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                answer = await client.post("/v1/chat/completions", json=body)
            assert '"logprob":-0.1' in answer.text
            await gateway.state.side(PayloadsSide).close(20)

    (record,) = logged(tmp_path)
    response = cast("dict[str, list[Json]]", record["response"])
    assert response["choices"][0]["logprobs"] == "[redacted]"
    assert cast(Json, record["request"])["logprobs"] is True
    assert SECRET[6:] not in json.dumps(record)


async def test_fields_are_redacted_by_name_and_by_path(tmp_path: Path) -> None:
    async with provider() as backend:
        rules = "redact: [{field: 'messages[].content'}, {field: usage, replacement: U}]"
        text = config(backend.base_url, tmp_path, f"mode: all, {rules}")
        async with serving(text, tmp_path) as gateway:
            await ask(gateway, "private")
            await gateway.state.side(PayloadsSide).close(20)

    (record,) = logged(tmp_path)
    request, response = cast(Json, record["request"]), cast(Json, record["response"])
    assert request["messages"] == [{"role": "user", "content": "[redacted]"}]
    assert response["usage"] == "U"
    assert "private" not in json.dumps(record)


@pytest.mark.parametrize("rule", ["{field: messages}", "{pattern: private}"])
async def test_a_body_that_is_not_json_is_omitted_if_there_are_rules(
    rule: str, tmp_path: Path
) -> None:
    body = r'{"model": "chat", "messages": [{"role": "user", "content": "\u0070rivate"}],}'
    async with provider() as backend, httpx.AsyncClient(timeout=60) as client:
        text = config(backend.base_url, tmp_path, f"mode: errors, redact: [{rule}]")
        async with serving(text, tmp_path) as gateway:
            answer = await client.post(f"{gateway.url}/v1/chat/completions", content=body)
            assert answer.status_code == 400
            await gateway.state.side(PayloadsSide).close(20)

    (record,) = logged(tmp_path)
    assert record["omitted"] == ["request"]
    assert "rivate" not in json.dumps(record)


async def test_a_body_that_is_not_json_is_a_text_without_rules(tmp_path: Path) -> None:
    async with provider() as backend, httpx.AsyncClient(timeout=60) as client:
        text = config(backend.base_url, tmp_path, "mode: errors")
        async with serving(text, tmp_path) as gateway:
            await client.post(f"{gateway.url}/v1/chat/completions", content="{no")
            await gateway.state.side(PayloadsSide).close(20)

    (record,) = logged(tmp_path)
    assert record["request"] == "{no"


async def test_long_bodies_are_cut_after_redaction(tmp_path: Path) -> None:
    async with provider() as backend:
        rules = "max_bytes: 256, redact: [{pattern: 'x+', replacement: X}]"
        text = config(backend.base_url, tmp_path, f"mode: all, {rules}")
        async with serving(text, tmp_path) as gateway:
            await ask(gateway, "x" * 10_000)
            await ask(gateway, "y" * 10_000)
            await gateway.state.side(PayloadsSide).close(20)

    short, long = logged(tmp_path)
    assert cast(Json, short["request"])["messages"] == [{"role": "user", "content": "X"}]
    assert len(str(long["request"])) == 256
    assert "request" in cast("list[str]", long["truncated"])
    assert cast(int, long["request_bytes"]) > 10_000


async def test_a_body_that_is_too_large_to_redact_is_not_logged(tmp_path: Path) -> None:
    async with provider() as backend:
        text = config(backend.base_url, tmp_path, "mode: all")
        async with serving(text, tmp_path) as gateway:
            assert (await ask(gateway, "y" * MAX_CAPTURED)).status_code == 200
            await gateway.state.side(PayloadsSide).close(20)

    (record,) = logged(tmp_path)
    assert record["omitted"] == ["request"]
    assert "request" not in record
    assert "response" in record


async def test_a_compressed_body_is_logged_decompressed(tmp_path: Path) -> None:
    async with provider() as backend:
        text = config(backend.base_url, tmp_path, "mode: all")
        async with serving(text, tmp_path) as gateway:
            body = json.dumps({"model": "chat", "messages": [{"role": "user", "content": "hi"}]})
            headers = {"content-type": "application/json", "content-encoding": "gzip"}
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                answer = await client.post(
                    "/v1/chat/completions", content=gzip.compress(body.encode()), headers=headers
                )
            assert answer.status_code == 200
            await gateway.state.side(PayloadsSide).close(20)

    (record,) = logged(tmp_path)
    assert record["request"] == json.loads(body)


async def test_a_request_without_a_valid_key_is_not_logged(tmp_path: Path) -> None:
    async with provider() as backend:
        keys = "auth: {mode: keys, keys: [{name: a, key: of-somebody-long-enough}]}"
        text = config(backend.base_url, tmp_path, "mode: all", keys)
        async with serving(text, tmp_path) as gateway:
            assert (await ask(gateway)).status_code == 401
            await gateway.state.side(PayloadsSide).close(20)

    assert logged(tmp_path) == []


async def test_a_folder_that_cannot_be_written_costs_no_request(tmp_path: Path) -> None:
    (tmp_path / "logged").write_text("a file where the folder should be")
    async with provider() as backend:
        text = config(backend.base_url, tmp_path, "mode: all")
        async with serving(text, tmp_path) as gateway:
            assert (await ask(gateway)).status_code == 200
            await gateway.state.side(PayloadsSide).close(20)
            assert counted(gateway) == {"written": 0, "dropped": 0, "failed": 1}


async def test_after_a_reload_to_off_nothing_captured_before_is_written(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def waits(request: Received, answer: Answer) -> None:
        await release.wait()
        await answers(request, answer)

    async with provider(waits) as backend:
        text = config(backend.base_url, tmp_path, "mode: all")
        async with serving(text, tmp_path) as gateway:
            asked = asyncio.create_task(ask(gateway))
            await backend.until(lambda: len(backend.requests) == 1)
            without = text.replace("mode: all", "mode: off")
            later = Runtime(read_config(without, source="c", env={}), run_dir=tmp_path)
            gateway.state.use_runtime(later)
            release.set()
            assert (await asked).status_code == 200
            await gateway.state.side(PayloadsSide).close(20)
            await later.close()

    assert logged(tmp_path) == []


async def test_a_shutdown_after_a_reload_loses_no_record(tmp_path: Path) -> None:
    async with provider() as backend:
        text = config(backend.base_url, tmp_path, "mode: all")
        async with serving(text, tmp_path) as gateway:
            for _ in range(10):
                await ask(gateway)
            changed = text.replace("mode: all", "mode: all, max_bytes: 1000")
            later = Runtime(read_config(changed, source="c", env={}), run_dir=tmp_path)
            gateway.state.use_runtime(later)
            await ask(gateway)
            await gateway.state.side(PayloadsSide).close(20)
            assert counted(gateway) == {"written": 11, "dropped": 0, "failed": 0}
            await later.close()

    assert len(logged(tmp_path)) == 11


async def test_the_collector_gets_log_records_of_the_requests_span(tmp_path: Path) -> None:
    async with provider() as backend, otlp_collector() as collector:
        telemetry = f'telemetry: {{otlp: {{endpoint: "{collector.origin}", sample: 1}}}}'
        text = config(backend.base_url, tmp_path, "mode: all, to: otlp", telemetry)
        async with serving(text, tmp_path) as gateway:
            await ask(gateway, "hello there")
            await gateway.state.side(PayloadsSide).close(20)
            await gateway.state.side(TracingSide).close(20)
            assert counted(gateway) == {"written": 1, "dropped": 0, "failed": 0}

    (server, _) = collector.spans()
    (request,) = [one for one in collector.server.requests if one.path == "/v1/logs"]
    (resource,) = ExportLogsServiceRequest.FromString(request.body).resource_logs
    (log,) = resource.scope_logs[0].log_records
    assert (log.trace_id, log.span_id) == (server.trace_id, server.span_id)
    assert log.event_name == "strowger.payload"
    assert values(log)["strowger.model"] == "chat"
    body = msgspec.json.decode(log.body.string_value, type=dict[str, object])
    sent = cast(Json, body["request"])
    assert sent["messages"] == [{"role": "user", "content": "hello there"}]


async def test_a_collector_that_refuses_logs_is_counted(tmp_path: Path) -> None:
    async with provider() as backend, otlp_collector(refuses(404, 99)) as collector:
        telemetry = f'telemetry: {{otlp: {{endpoint: "{collector.origin}", sample: 0}}}}'
        text = config(backend.base_url, tmp_path, "mode: all, to: otlp", telemetry)
        async with serving(text, tmp_path) as gateway:
            assert (await ask(gateway)).status_code == 200
            await gateway.state.side(PayloadsSide).close(20)
            assert counted(gateway) == {"written": 0, "dropped": 0, "failed": 1}
