"""Prompts that are too long for a model, and answers that it cannot give, over the wire."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.experiments.mirror.process_side import MirrorsSide
from tests.gateway.serving import Serving, serving
from tests.gateway.surfaces.anthropic.claude import BEHIND_CLAUDE, HELLO, claude_in_front_of
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {{name: small, adapter: openai, base_url: "{small}"}}
  - {{name: large, adapter: openai, base_url: "{large}"}}
models:
  - name: chat
    policy: in_order
    backends: [{{provider: small, model: s}}, {{provider: large, model: l}}]
  - {{name: alone, backends: [{{provider: small, model: s}}]}}
  - {{name: strict, require: true, backends: [{{provider: small, model: s}}]}}
  - {{name: "free-*", backends: [{{provider: small, model: "*"}}]}}
  - name: ruled
    backends: [{{provider: small, model: s}}]
    fallback_by_error: [{{codes: [context_length_exceeded], models: [long]}}]
  - {{name: long, backends: [{{provider: large, model: l}}]}}
  - name: copied
    backends: [{{provider: large, model: l}}]
    mirror: {{backend: small/s, share: 1}}
capabilities:
  - {{match: small/*, context: 100, max_output: 50}}
  - {{match: small/free-2, context: unknown}}
  - {{match: large/l, context: 100000, max_output: 5000}}
"""
SURE = "word " * 1_000
"""At least 250 tokens, whatever the tokenizer."""
LIKELY = "word " * 90
"""112 tokens by the estimate, and perhaps fewer."""


class Setting(Struct, frozen=True, kw_only=True, eq=False):
    small: Provider
    large: Provider
    gateway: Serving
    client: httpx.AsyncClient

    async def chat(self, text: str, model: str = "chat", **more: object) -> httpx.Response:
        messages = [{"role": "user", "content": text}]
        body = {"model": model, "messages": messages, **more}
        return await self.client.post("/v1/chat/completions", json=body)


@asynccontextmanager
async def two_sizes(run_dir: Path, config: str = CONFIG) -> AsyncGenerator[Setting, None]:
    async with AsyncExitStack() as stack:
        small = await stack.enter_async_context(provider(answers))
        large = await stack.enter_async_context(provider(answers))
        text = config.format(small=small.base_url, large=large.base_url)
        gateway = await stack.enter_async_context(serving(text, run_dir))
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=gateway.url, timeout=60)
        )
        yield Setting(small=small, large=large, gateway=gateway, client=client)


async def test_a_prompt_that_is_certainly_too_long_never_reaches_the_backend(
    tmp_path: Path,
) -> None:
    async with two_sizes(tmp_path) as setting:
        answer = await setting.chat(SURE)
        (line,) = setting.gateway.access_lines()

    assert answer.status_code == 200
    assert answer.headers["x-gateway-backend"] == "large/l"
    assert len(setting.small.requests) == 0
    assert len(line.attempts) == 1


async def test_a_prompt_that_fits_no_backend_is_refused_with_the_limit(tmp_path: Path) -> None:
    async with two_sizes(tmp_path) as setting:
        answer = await setting.chat("word " * 500_000)

    error = answer.json()["error"]
    assert answer.status_code == 400
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")
    assert "this model's maximum context length is 100000 tokens" in error["message"]
    assert len(setting.small.requests) + len(setting.large.requests) == 0


async def test_plans_of_one_shape_differ_by_the_length_of_the_prompt(tmp_path: Path) -> None:
    async with two_sizes(tmp_path) as setting:
        backends = [
            (await setting.chat(text)).headers["x-gateway-backend"]
            for text in ("hi", SURE, "hi", LIKELY, "hi")
        ]

    assert backends == ["small/s", "large/l", "small/s", "large/l", "small/s"]


async def test_a_prompt_that_may_fit_is_sent_if_no_backend_has_a_larger_context(
    tmp_path: Path,
) -> None:
    async with two_sizes(tmp_path) as setting:
        answer = await setting.chat(LIKELY, "alone")

    assert answer.status_code == 200
    assert len(setting.small.requests) == 1


@pytest.mark.parametrize(("count", "status"), [(100, 200), (101, 400)])
async def test_token_ids_are_counted_exactly(count: int, status: int, tmp_path: Path) -> None:
    async with two_sizes(tmp_path) as setting:
        body = {"model": "alone", "prompt": [7] * count, "max_tokens": 1}
        answer = await setting.client.post("/v1/completions", json=body)

    assert answer.status_code == status
    assert len(setting.small.requests) == (status == 200)


@pytest.mark.parametrize(
    ("model", "status"), [("free-1", 400), ("free-2", 200)], ids=["known", "unknown"]
)
async def test_a_wildcard_backend_has_the_limits_of_the_requested_model(
    model: str, status: int, tmp_path: Path
) -> None:
    async with two_sizes(tmp_path) as setting:
        answer = await setting.chat(SURE, model)

    assert answer.status_code == status


async def test_a_field_that_may_shorten_the_prompt_leaves_it_to_the_vendor(
    tmp_path: Path,
) -> None:
    async with two_sizes(tmp_path) as setting:
        plain = await setting.chat(SURE, "alone")
        cached = await setting.chat(SURE, "alone", prompt_cache_key="k")
        shortened = await setting.chat(SURE, "alone", transforms=["middle-out"])
        automatic = await setting.client.post(
            "/v1/responses", json={"model": "alone", "input": SURE, "truncation": "auto"}
        )

    assert (plain.status_code, cached.status_code) == (400, 400)
    assert "context_length_exceeded" not in shortened.text + automatic.text


async def test_inputs_to_embed_are_left_to_the_vendor_which_may_cut_them(tmp_path: Path) -> None:
    async with two_sizes(tmp_path) as setting:
        await setting.client.post("/v1/embeddings", json={"model": "alone", "input": SURE})

    assert len(setting.small.requests) > 0


async def test_a_rule_for_the_code_takes_a_prompt_that_was_not_sent(tmp_path: Path) -> None:
    async with two_sizes(tmp_path) as setting:
        answer = await setting.chat(SURE, "ruled")
        (line,) = setting.gateway.access_lines()

    assert answer.headers["x-gateway-backend"] == "large/l"
    assert (len(setting.small.requests), len(line.attempts)) == (0, 1)


async def test_a_mirror_gets_no_copy_of_a_prompt_that_is_too_long_for_it(tmp_path: Path) -> None:
    async with two_sizes(tmp_path) as setting:
        answer = await setting.chat(SURE, "copied")
        await setting.gateway.state.side(MirrorsSide).copies.wait_idle()
        (mirrored,) = setting.gateway.mirror_lines()

    assert answer.status_code == 200
    assert len(setting.small.requests) == 0
    assert "context length is 100 tokens" in mirrored.reason


async def test_a_longer_answer_comes_from_the_backend_that_can_give_it(tmp_path: Path) -> None:
    async with two_sizes(tmp_path) as setting:
        answer = await setting.chat("hi", max_tokens=400)

    assert answer.headers["x-gateway-backend"] == "large/l"
    assert setting.large.requests[0].json["max_tokens"] == 400
    assert "x-gateway-dropped-params" not in answer.headers


async def test_an_answer_that_no_model_can_give_is_lowered_to_the_largest_and_reported(
    tmp_path: Path,
) -> None:
    async with two_sizes(tmp_path) as setting:
        answer = await setting.chat("hi", max_tokens=9_000)
        within = await setting.chat("hi", max_tokens=50)

    assert answer.headers["x-gateway-backend"] == "large/l"
    assert answer.headers["x-gateway-dropped-params"] == "max_tokens"
    assert answer.headers["x-gateway-defaulted-params"] == "max_tokens=5000"
    assert setting.large.requests[0].json["max_tokens"] == 5_000
    assert within.headers["x-gateway-backend"] == "small/s"
    assert "x-gateway-defaulted-params" not in within.headers


async def test_a_strict_model_refuses_a_longer_answer_than_it_can_give(tmp_path: Path) -> None:
    async with two_sizes(tmp_path) as setting:
        answer = await setting.chat("hi", "strict", max_tokens=51)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "unsupported", "max_tokens")
    assert "at most 50" in error["message"]


async def claude(request: Received, answer: Answer) -> None:
    if request.path.endswith("count_tokens"):
        await answer.json({"input_tokens": 4_321})
    else:
        await answers(request, answer)


async def test_a_required_max_tokens_is_the_operators_ceiling(tmp_path: Path) -> None:
    config = BEHIND_CLAUDE + "capabilities: [{{match: claude/*, max_output: 777}}]\n"
    async with claude_in_front_of(claude, config, tmp_path) as setting:
        async with httpx.AsyncClient(base_url=setting.gateway.url, timeout=60) as client:
            body = {"model": "chat", "messages": [HELLO]}
            answer = await client.post("/v1/chat/completions", json=body)

    assert setting.sent()["max_tokens"] == 777
    assert answer.headers["x-gateway-defaulted-params"] == "max_tokens=777"


async def test_a_required_max_tokens_leaves_room_for_a_long_prompt(tmp_path: Path) -> None:
    config = BEHIND_CLAUDE + (
        "capabilities: [{{match: claude/*, context: 200000, max_output: 64000}}]\n"
    )
    long = {"role": "user", "content": "word " * 60_000}
    async with claude_in_front_of(claude, config, tmp_path) as setting:
        async with httpx.AsyncClient(base_url=setting.gateway.url, timeout=60) as client:
            await client.post("/v1/chat/completions", json={"model": "chat", "messages": [long]})
    sent = setting.sent()["max_tokens"]

    assert isinstance(sent, int)
    assert 4_096 <= sent <= 200_000 - 75_000


async def test_tokens_of_a_prompt_that_is_too_long_are_still_counted(tmp_path: Path) -> None:
    config = BEHIND_CLAUDE + "capabilities: [{{match: claude/*, context: 100}}]\n"
    async with claude_in_front_of(claude, config, tmp_path) as setting:
        counted = await setting.client.messages.count_tokens(
            model="chat", messages=[{"role": "user", "content": SURE}]
        )

    assert counted.input_tokens == 4_321
