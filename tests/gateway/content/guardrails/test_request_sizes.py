"""The size of a request's text, on every surface."""

from pathlib import Path

import pytest

from tests.gateway.content.hooks.test_guarded_requests import (
    CHAT,
    COMPLETIONS,
    MESSAGES,
    RESPONSES,
    guarded,
)

pytestmark = pytest.mark.anyio

LIMIT = "guardrails: [{name: short, use: sizes, settings: {input_characters: 30}}]"
BLOCKED = "the guardrail 'short' blocked the request"
FIELDS = {CHAT: "messages", COMPLETIONS: "prompt", MESSAGES: "messages", RESPONSES: "input"}


@pytest.mark.parametrize("path", FIELDS)
async def test_equal_texts_count_as_often_as_they_are_sent(tmp_path: Path, path: str) -> None:
    text = "word " * 2
    one = text if path == COMPLETIONS else {"role": "user", "content": text}
    async with guarded(tmp_path, LIMIT, "Fine.") as at:
        fits = await at.ask(path, "", **{FIELDS[path]: [one] * 3})
        assert fits.status_code == 200, fits.text
        longer = await at.ask(path, "", **{FIELDS[path]: [one] * 4})
        assert longer.status_code == 400
        assert BLOCKED in longer.text


async def test_reasoning_in_two_forms_counts_once(tmp_path: Path) -> None:
    thought = {"type": "thinking", "thinking": "t" * 10, "signature": "c2lnbmF0dXJl"}
    answer = {"type": "text", "text": "a" * 10}
    messages = [
        {"role": "user", "content": "u" * 5},
        {"role": "assistant", "content": [thought, answer]},
        {"role": "user", "content": "u" * 5},
    ]
    async with guarded(tmp_path, LIMIT, "Fine.") as at:
        fits = await at.ask(MESSAGES, "", messages=messages)
        assert fits.status_code == 200, fits.text
        longer = await at.ask(MESSAGES, "", messages=messages, system="s")
        assert BLOCKED in longer.text
