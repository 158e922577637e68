"""An answer that is limited to what its model can give is asked for with settings that fit."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import (
    Json,
    Rig,
    dropped,
    one_of_each,
    repairs,
)

pytestmark = pytest.mark.anyio

SHORT, CLAUDE = 8_000, "claude-sonnet-4-5"
BEDROCK = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
BUDGET: Json = {"type": "enabled", "budget_tokens": 20_000}
ADAPTERS = ("anthropic", "bedrock", "vertex-anthropic", "openai", "openai-responses")


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("lowered")
    rows = [f"  - {{match: {one}/*, max_output: {SHORT}}}\n" for one in ADAPTERS]
    more = f"capabilities:\n{''.join(rows)}"
    async with one_of_each(folder, *ADAPTERS, top=more) as one:
        yield one


def limit_and_budget(body: Json) -> tuple[object, object]:
    if "inferenceConfig" in body:
        more = cast("Json", body["additionalModelRequestFields"])
        thinking = cast("Json", more["thinking"])
        return cast("Json", body["inferenceConfig"])["maxTokens"], thinking["budget_tokens"]
    return body["max_tokens"], cast("Json", body["thinking"])["budget_tokens"]


@pytest.mark.parametrize(
    "model", [f"anthropic/{CLAUDE}", f"vertex-anthropic/{CLAUDE}", f"bedrock/{BEDROCK}"]
)
@pytest.mark.parametrize("surface", ["messages", "chat"])
async def test_a_budget_stays_below_the_lowered_limit(rig: Rig, surface: str, model: str) -> None:
    ask = rig.messages if surface == "messages" else rig.chat
    answer = await ask(model, max_tokens=30_000, thinking=BUDGET)

    assert answer.status_code == 200, answer.text
    assert limit_and_budget(rig.sent) == (SHORT, SHORT - 1)
    assert "max_tokens" in dropped(answer)
    assert answer.headers["x-gateway-defaulted-params"] == f"max_tokens={SHORT}"
    assert "thinking:fitting_budget" in repairs(answer)


@pytest.mark.parametrize(
    ("model", "field"),
    [("openai", "max_tokens"), ("openai-responses", "max_output_tokens")],
)
async def test_other_repairs_run_once_if_the_limit_is_lowered(
    rig: Rig, model: str, field: str
) -> None:
    keys: list[object] = []
    for limit in (100, 30_000):
        answer = await rig.chat(model, max_tokens=limit, prompt_cache_key="mine", user="u" * 200)
        assert answer.status_code == 200, answer.text
        keys.append((rig.sent["prompt_cache_key"], repairs(answer)))

    assert rig.sent[field] == SHORT
    assert keys[0] == keys[1]
