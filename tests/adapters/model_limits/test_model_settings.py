"""Settings that a model does not take are omitted, or become the nearest that it takes."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.adapters.repairs.one_of_each import (
    Json,
    Rig,
    dropped,
    one_of_each,
    repairs,
)

pytestmark = pytest.mark.anyio

VENDORS = (
    "groq",
    "mistral",
    "vllm",
    "openai",
    "openai-responses",
    "xai",
    "moonshot",
    "deepseek",
    "dashscope",
    "github-models",
)
DRAWN = {
    "temperature": 0.2,
    "top_p": 0.5,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "logit_bias": {"1": 1},
    "logprobs": True,
    "top_logprobs": 2,
}
SURFACES = ("chat", "messages", "responses")


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with one_of_each(tmp_path_factory.mktemp("settings"), *VENDORS) as one:
        yield one


async def ask(rig: Rig, surface: str, model: str, **fields: object) -> httpx.Response:
    """Send a request with OpenAI's names, in the words of the surface."""
    effort = fields.pop("effort", None)
    if surface == "chat":
        own: Json = {"reasoning_effort": effort}
    elif surface == "messages":
        own = {"output_config": {"effort": effort}}
    else:
        own = {"reasoning": {"effort": effort}}
    if fields.pop("calls", None):
        fields["tools"] = [function(surface)]
    answer = await {"chat": rig.chat, "messages": rig.messages, "responses": rig.responses}[
        surface
    ](model, **fields, **(own if effort else {}))
    assert answer.status_code == 200, answer.text
    return answer


def function(surface: str) -> Json:
    schema: Json = {"type": "object", "properties": {}}
    if surface == "messages":
        return {"name": "f", "input_schema": schema}
    inner: Json = {"name": "f", "parameters": schema}
    return {"type": "function", **(inner if surface == "responses" else {"function": inner})}


def sent_effort(rig: Rig) -> object:
    reasoning = cast("Json", rig.sent.get("reasoning") or {})
    return rig.sent.get("reasoning_effort", reasoning.get("effort"))


@pytest.mark.parametrize(
    ("model", "kept"),
    [
        ("openai/gpt-5", ()),
        ("openai/gpt-5.5", ()),
        ("openai/gpt-5.6-sol", ()),
        ("openai/o3", ()),
        ("openai/proxied/o4-mini", ()),
        ("openai/gpt-5.2", ("temperature", "top_p", "logprobs", "top_logprobs")),
        ("openai/gpt-5.2-codex", ()),
        ("openai/gpt-5-chat-latest", tuple(DRAWN)),
        ("openai/gpt-4o", tuple(DRAWN)),
        ("openai/gpt-35-turbo", tuple(DRAWN)),
        ("openai/my-own-model", tuple(DRAWN)),
        ("github-models/openai/gpt-5", ()),
    ],
)
async def test_models_that_reason_get_no_sampling(
    rig: Rig, model: str, kept: tuple[str, ...]
) -> None:
    answer = await ask(rig, "chat", model, **DRAWN)

    assert tuple(name for name in DRAWN if name in rig.sent) == kept
    assert set(dropped(answer)) == DRAWN.keys() - set(kept)


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    "model", ["openai/gpt-5.5", "openai-responses/gpt-5.5", "moonshot/kimi-k2.6"]
)
async def test_each_api_of_a_client_may_set_a_temperature(
    rig: Rig, model: str, surface: str
) -> None:
    answer = await ask(rig, surface, model, temperature=0.2, top_p=0.9)

    assert "temperature" not in rig.sent
    assert "top_p" not in rig.sent
    assert dropped(answer) == ["temperature", "top_p"]


async def test_a_model_that_does_not_reason_now_keeps_its_sampling(rig: Rig) -> None:
    await ask(rig, "chat", "openai/gpt-5.1", temperature=0.2, effort="none")
    resting = rig.sent
    await ask(rig, "chat", "openai/gpt-5.1", temperature=0.2, effort="low")

    assert (resting["temperature"], "temperature" in rig.sent) == (0.2, False)


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("openai/gpt-5.5", "minimal", "low"),
        ("openai/gpt-5.6", "minimal", "low"),
        ("openai/gpt-5.6", "max", "xhigh"),
        ("openai-responses/gpt-5.6", "max", "max"),
        ("openai-responses/gpt-5.5", "max", "xhigh"),
        ("openai/gpt-5", "none", "minimal"),
        ("openai/gpt-5", "xhigh", "high"),
        ("openai/gpt-5.1", "xhigh", "high"),
        ("openai/gpt-5-pro", "low", "high"),
        ("openai/gpt-5.1-codex-max", "none", "low"),
        ("openai/gpt-5.2-chat-latest", "high", "medium"),
        ("openai/o3", "none", "low"),
        ("openai/o3", "xhigh", "high"),
        ("openai/gpt-4o", "low", None),
        ("openai/gpt-4", "low", None),
        ("openai/gpt-35-turbo", "low", None),
        ("openai/gpt-5.5", "high", "high"),
        ("openai/my-own-model", "max", "max"),
        ("openai/gpt-5.5", "deepest", "deepest"),
        ("xai/grok-4", "high", None),
        ("xai/grok-4-1-fast-reasoning", "high", None),
        ("xai/grok-4.3", "xhigh", "high"),
        ("xai/grok-4.5", "none", "low"),
        ("xai/grok-3-mini", "medium", "high"),
        ("xai/grok-9", "medium", "medium"),
        ("vllm/openai/gpt-oss-120b", "xhigh", "high"),
        ("vllm/qwen3", "xhigh", "xhigh"),
        ("groq/openai/gpt-oss-120b", "none", "low"),
        ("groq/llama-3.3-70b-versatile", "high", None),
        ("groq/qwen/qwen3-32b", "high", "default"),
        ("groq/qwen/qwen3-32b", "none", "none"),
        ("mistral/mistral-medium-3.5", "low", "high"),
        ("mistral/magistral-small-latest", "minimal", "none"),
        ("mistral/mistral-large-latest", "high", None),
        ("mistral/mistral-small-2506", "high", None),
    ],
)
async def test_an_effort_becomes_one_that_the_model_knows(
    rig: Rig, model: str, effort: str, sent: str | None
) -> None:
    answer = await ask(rig, "chat", model, effort=effort)

    assert sent_effort(rig) == sent
    assert (repairs(answer), dropped(answer)) == (
        ["reasoning_effort:effort"] if sent not in (None, effort) else [],
        ["reasoning_effort"] if sent is None else [],
    )


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("openai/gpt-5.4", "medium", None),
        ("openai/gpt-5.5", "medium", None),
        ("openai/gpt-5.5", None, None),
        ("openai/gpt-5.6", "medium", "none"),
        ("openai/gpt-5.6-luna", None, "none"),
        ("openai/gpt-5.2", "medium", "medium"),
        ("openai-responses/gpt-5.6", "medium", "medium"),
    ],
)
async def test_functions_and_an_effort_are_sent_together_only_where_that_works(
    rig: Rig, model: str, surface: str, effort: str | None, sent: str | None
) -> None:
    await ask(rig, surface, model, effort=effort, calls=True)

    assert sent_effort(rig) == sent


async def test_grok_gets_no_penalties_if_it_reasons(rig: Rig) -> None:
    without = await ask(rig, "chat", "xai/grok-4", presence_penalty=0, frequency_penalty=0.0)
    neither = rig.sent
    some = await ask(rig, "chat", "xai/grok-4", presence_penalty=0.3, temperature=0.2)
    reasoning = rig.sent
    await ask(rig, "chat", "xai/grok-3", presence_penalty=0.3)

    assert not {"presence_penalty", "frequency_penalty"} & neither.keys()
    assert dropped(without) == ["presence_penalty", "frequency_penalty"]
    assert (dropped(some), reasoning["temperature"]) == (["presence_penalty"], 0.2)
    assert rig.sent["presence_penalty"] == 0.3


async def test_only_a_value_with_an_effect_is_a_loss(tmp_path: Path) -> None:
    strict = ", on_repair: reject"
    async with one_of_each(tmp_path, "xai", "openai", more=strict) as one:
        alike = await one.chat("xai/grok-4", presence_penalty=0, frequency_penalty=0)
        penalty = await one.chat("xai/grok-4", presence_penalty=0.3)
        warmth = await one.responses("openai/gpt-5.5", temperature=0.2)

    assert [one.status_code for one in (alike, penalty, warmth)] == [200, 400, 400]
    assert penalty.json()["error"]["param"] == "presence_penalty"
    assert "fixed_sampling" in warmth.json()["error"]["message"]
