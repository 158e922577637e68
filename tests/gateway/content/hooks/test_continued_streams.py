"""A guardrail examines a stream that another backend continues as one text."""

from pathlib import Path

import pytest

from tests.gateway.routing.recovery.continuing import ask, beginning, say
from tests.gateway.routing.recovery.test_limits_of_recovery import broken, paths, staged
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio

KEY = "AKIA" + "Q3" * 8
TEXT = "word " * 60 + f"use {KEY} now"
MASK = "breaker: {min_requests: 1000}\nguardrails: [{name: keys, use: secrets, mode: mask}]"


@pytest.mark.parametrize("cut", [300, 310, len(TEXT) - 5])
async def test_a_secret_across_the_seam_is_masked(cut: int, tmp_path: Path) -> None:
    async def continues(request: Received, answer: Answer) -> None:
        await say(request, answer, list(TEXT[len(beginning(request)) :]))

    first = broken(*TEXT[:cut])
    async with staged(tmp_path, first, continues, model_more=MASK) as (gateway, remote):
        got = await ask(gateway.url)
        assert got.text == TEXT.replace(KEY, "[secret]")
        assert (got.done, paths(remote)) == (True, ["0", "1"])
