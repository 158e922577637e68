"""Arguments of tool calls are examined with the characters that their escapes name."""

import json
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.content.hooks.plain_escapes import PlainEscapes, with_plain_escapes
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, chat_body, delta_body, provider

pytestmark = pytest.mark.anyio

WORDS = """
guardrails: [{name: words, use: patterns, mode: mask, settings: {words: [forbidden]}}]
"""

TEXTS = st.text(st.sampled_from('ao"\\/\n\x00\x7fé漢😀u0d8c\ud83d\ude00'), max_size=30)


@given(TEXTS, st.booleans(), st.lists(st.integers(0, 200), max_size=8))
def test_json_keeps_its_value_however_it_is_split(text: str, plain: bool, cuts: list[int]) -> None:
    source = json.dumps({text: [text]}, ensure_ascii=plain).replace("o", "\\u006F")
    pieces = PlainEscapes()
    places = [0, *sorted(cuts), len(source)]
    out = "".join(pieces.add(source[a:b]) for a, b in pairwise(places))
    out += pieces.end()

    assert json.loads(out) == json.loads(source)
    assert out == with_plain_escapes(source)
    assert "\\u006F" not in out.replace("\\\\", "")


@given(st.text(st.sampled_from("\\u0d83DcCe/a"), max_size=40), st.lists(st.integers(0, 40)))
def test_what_is_no_json_is_the_same_in_pieces_as_whole(text: str, cuts: list[int]) -> None:
    pieces = PlainEscapes()
    places = [0, *sorted(cuts), len(text)]
    out = "".join(pieces.add(text[a:b]) for a, b in pairwise(places))

    assert out + pieces.end() == with_plain_escapes(text)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [
        '{"a": "forb\\u0069dden"}',
        '{"a": "forb\\u0069dden", "a": 1}',
        '["forb\\u0069dden"]',
        '{"a": "forb\\u0069dden"} and more',
        '{"a": "x\\/forb\\u0069dden\\ud83d',
    ],
)
async def test_escapes_hide_no_word_in_the_arguments_of_an_answer(
    tmp_path: Path, arguments: str, *, stream: bool
) -> None:
    def call(text: str) -> dict[str, object]:
        function = {"name": "f", "arguments": text}
        return {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}

    async def behaviour(_: Received, answer: Answer) -> None:
        if not stream:
            choice = {
                "index": 0,
                "message": {"role": "assistant", "content": None, **call(arguments)},
            }
            body = {**chat_body(), "choices": [{**choice, "finish_reason": "tool_calls"}]}
            await answer.json(body)
            return
        await answer.begin_stream()
        for piece in ["", *arguments]:
            await answer.event(delta_body(call(piece)))
        await answer.event(delta_body({}, "tool_calls"))
        await answer.end_stream()

    async with (
        provider(behaviour) as upstream,
        serving(one_model(upstream.base_url, WORDS), tmp_path) as running,
        httpx.AsyncClient(timeout=60) as client,
    ):
        messages = [{"role": "user", "content": "hi"}]
        body = {"model": "chat", "stream": stream, "messages": messages}
        answer = await client.post(f"{running.url}/v1/chat/completions", json=body)

    assert answer.status_code == 200
    events = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    received = "".join(
        one["function"].get("arguments", "")
        for event in (events if stream else [answer.text])
        for choice in json.loads(event)["choices"]
        for one in (choice["delta"] if stream else choice["message"]).get("tool_calls", ())
    )
    expected = with_plain_escapes(arguments).replace("forbidden", "[masked]")
    assert received.replace(" ", "") == expected.replace(" ", "")
