"""A run counts as one with long thinking only if its caller waited to the end of that."""

import httpx
import pytest

from tests.agents.backends import BACKENDS
from tests.agents.trouble import Trouble
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

(OPENAI,) = [one for one in BACKENDS if one.name == "openai"]


async def post(trouble: Trouble, timeouts_s: tuple[float | None, ...]) -> list[bool]:
    """Send a request with each of these timeouts; whether each was answered."""
    answered: list[bool] = []

    async def behave(_: Received, answer: Answer) -> None:
        await trouble.think(OPENAI, answer, streamed=False)
        await answer.chat()

    async with provider(behave) as server, httpx.AsyncClient(timeout=60) as client:
        for timeout_s in timeouts_s:
            try:
                await client.post(server.base_url, json={}, timeout=timeout_s)
                answered.append(True)
            except httpx.ReadTimeout:
                answered.append(False)
    return answered


async def test_a_caller_that_waits_lets_the_model_think() -> None:
    trouble = Trouble(thinks_s=0.2)

    assert await post(trouble, (None,)) == [True]
    assert trouble.thought


async def test_a_caller_that_gives_up_and_repeats_its_request_does_not() -> None:
    trouble = Trouble(thinks_s=600)

    assert await post(trouble, (0.2, None)) == [False, True]
    assert not trouble.thought
