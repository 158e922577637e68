"""Plain answers over the wire: as on the general path, which the same model takes with a hedge."""

import json
from collections.abc import Mapping
from pathlib import Path

import httpx
import msgspec
import pytest

from strowger_gateway.gateway.experiments.mirror.process_side import MirrorsSide
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Received, chat_body, provider

CONFIG = """
prices: [{{match: a/m, input: 1, output: 2}}]
providers:
  - {{name: a, adapter: openrouter, base_url: "{url}", api_key: sk-a}}
models:
  - {{name: plain, backends: [{{provider: a, model: m}}]}}
  - {{name: general, backends: [{{provider: a, model: m}}], hedge_after_s: 60}}
  - {{name: mirrored, backends: [{{provider: a, model: m}}], mirror: {{backend: a/copy, share: 1}}}}
limits: [{{name: all, who: {{any: true}}, each: key, tokens: 1000000}}]
"""
MESSAGES = [{"role": "user", "content": "hello"}]
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def answer_with(message: Mapping[str, object], **more: object) -> Mapping[str, object]:
    """A usual answer with more in its message and beside its choices."""
    usual = dict(chat_body('Grüße, "you"'))
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "Grüße", **message},
        "finish_reason": "stop",
    }
    return {**usual, "choices": [choice], **more}


ANSWERS: Mapping[str, Mapping[str, object]] = {
    "text": answer_with({}),
    "annotations": answer_with({"annotations": []}, service_tier="flex", system_fingerprint="fp"),
    "no usage": answer_with({}, usage=None),
    "a reported cost": answer_with({}, usage={"prompt_tokens": 7, "completion_tokens": 3,
                                              "total_tokens": 10, "cost": 0.25}),
    "a reported cost in short": answer_with({}, usage={"cost": 0.25}),
    "no model": answer_with({}, model=None),
    "a tool call": answer_with({"content": None, "tool_calls": [CALL]}),
    "a refusal": answer_with({"content": None, "refusal": "no"}),
    "a new field": answer_with({"mood": "good"}, weather="sunny"),
}  # fmt: skip


CHAT, ANTHROPIC, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
PREFIXES = {CHAT: "chatcmpl-", ANTHROPIC: "msg_", RESPONSES: "resp_"}
"""Paths of surfaces with plain answers, and how the ids of their answers begin."""


async def post(
    up: Serving, client: httpx.AsyncClient, model: str, path: str = CHAT
) -> httpx.Response:
    body: dict[str, object] = {"model": model, "messages": MESSAGES, "max_tokens": 100}
    if path == RESPONSES:
        body = {"model": model, "input": MESSAGES, "max_output_tokens": 100}
    return await client.post(f"{up.url}{path}", json=body)


def without_ids(output: object, response_id: str) -> str:
    """The items as JSON, without the part of their ids that the response's id has."""
    return json.dumps(output).replace(response_id.removeprefix("resp_"), "")


def timeless(line: AccessLine) -> AccessLine:
    """The line without what differs between two requests of the same kind."""
    attempts = tuple([msgspec.structs.replace(one, ms=0.0) for one in line.attempts])
    return msgspec.structs.replace(
        line,
        time=0.0, ms=0.0, ttft_ms=None if line.ttft_ms is None else 0.0, request_id="", model="",
        route="", attempts=attempts,
    )  # fmt: skip


@pytest.mark.parametrize("path", PREFIXES)
@pytest.mark.parametrize("name", ANSWERS)
async def test_a_plain_answer_and_its_records_are_those_of_the_general_path(
    name: str, path: str, tmp_path: Path
) -> None:
    async def behaviour(_: Received, answer: Answer) -> None:
        await answer.json(ANSWERS[name])

    async with (
        provider(behaviour) as upstream,
        serving(CONFIG.format(url=upstream.base_url), tmp_path) as up,
        httpx.AsyncClient(timeout=60) as client,
    ):
        plain = await post(up, client, "plain", path)
        general = await post(up, client, "general", path)
        lines = up.access_lines()

    assert plain.status_code == general.status_code == 200
    left, right = plain.json(), general.json()
    ids = left.pop("id"), right.pop("id")
    assert all(id.startswith(PREFIXES[path]) for id in ids)
    assert ids[0] != ids[1]
    for name_of_time in {"created", "created_at", "completed_at"} & left.keys():
        assert abs(left.pop(name_of_time) - right.pop(name_of_time)) <= 1
    if path == RESPONSES:
        assert without_ids(left.pop("output"), ids[0]) == without_ids(right.pop("output"), ids[1])
    if name == "no model":
        assert (left.pop("model"), right.pop("model")) == ("plain", "general")
    assert list(left.items()) == list(right.items())
    assert plain.headers.keys() == general.headers.keys()
    assert timeless(lines[0]) == timeless(lines[1])


async def test_a_request_goes_to_the_next_backend_if_its_plain_answer_fails(tmp_path: Path) -> None:
    async def first_fails(request: Received, answer: Answer) -> None:
        if len(upstream.requests) == 1:
            await answer.json({"error": {"message": "broken"}}, status=500)
        else:
            await answer.chat()

    async with (
        provider(first_fails) as upstream,
        serving(CONFIG.format(url=upstream.base_url), tmp_path) as up,
        httpx.AsyncClient(timeout=60) as client,
    ):
        answered = await post(up, client, "plain")
        [line] = up.access_lines()

    assert answered.json()["choices"][0]["message"]["content"] == "hello"
    assert [one.outcome for one in line.attempts] == ["upstream_failed", "ok"]
    assert (line.prompt_tokens, line.completion_tokens) == (7, 3)


async def test_the_answer_to_a_mirrored_request_is_compared(tmp_path: Path) -> None:
    async with (
        provider() as upstream,
        serving(CONFIG.format(url=upstream.base_url), tmp_path) as up,
        httpx.AsyncClient(timeout=60) as client,
    ):
        (await post(up, client, "mirrored")).raise_for_status()
        await upstream.until(lambda: len(upstream.requests) == 2)
        await up.state.side(MirrorsSide).copies.wait_idle()
        [line] = up.mirror_lines()

    assert line.compared is not None
    assert line.compared.same_text


pytestmark = pytest.mark.anyio
