"""Secrets: tokens of any length, whole and streamed, and texts that are made to be slow."""

from pathlib import Path
from random import Random
from time import process_time

import pytest

from tests.gateway.hooks.test_guarded_requests import CHAT, SECRETS, guarded, shown

pytestmark = pytest.mark.anyio

MASKS = SECRETS.format(mode="mask", where="both")
TOKEN = f"eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJ{'c3ViIjoi' * 200}.{'Sg-_' * 85}"


async def test_a_json_web_token_with_many_claims_is_masked(tmp_path: Path) -> None:
    async with guarded(tmp_path, MASKS, f"It is {TOKEN}") as at:
        answer = await at.ask(CHAT, f"Use {TOKEN}")
        assert answer.json()["choices"][0]["message"]["content"] == "It is [secret]"
        assert at.received[0].json["messages"] == [{"role": "user", "content": "Use [secret]"}]


@pytest.mark.parametrize("size", [1, 7, 100])
async def test_a_json_web_token_longer_than_the_hold_back_is_masked_in_a_stream(
    size: int, tmp_path: Path
) -> None:
    text = f"It is {TOKEN} as asked."
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    async with guarded(tmp_path, MASKS, *pieces) as at:
        answer = await at.ask(CHAT, "hi", stream=True)
        assert shown(CHAT, answer.text) == "It is [secret] as asked."


async def test_a_text_of_beginnings_takes_about_as_long_as_others(tmp_path: Path) -> None:
    draw = Random(3)
    texts = ["".join(draw.choices(["-eyJ", "-aaa", "-b"], k=90_000)), "-aaa" * 80_000]
    async with guarded(tmp_path, MASKS, "hello") as at:
        took: list[float] = []
        for text in texts:
            begun = process_time()
            assert (await at.ask(CHAT, text)).status_code == 200
            took.append(process_time() - begun)
        assert took[0] < 0.5 + 5 * took[1]
