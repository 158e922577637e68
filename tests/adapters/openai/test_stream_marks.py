"""How a stream of the OpenAI dialect may end: with `[DONE]`, with usage, or with neither."""

import pytest

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.adapters.testing import translate
from strowger_gateway.schemas.errors import UpstreamBroken
from strowger_gateway.schemas.events import Event, Usage
from tests.adapters.chats import folded
from tests.adapters.openai.openai_doubles import CHAT, Json, delta, stream

REGISTRY = Registry(())
TEXT = delta({"content": "Tea."})
STOP = delta(finish="stop")
USAGE: Json = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
COUNTED: Json = {"id": "c1", "choices": [], "usage": USAGE}
KNOWN = ("azure", "databricks", "openrouter", "sglang", "tgi", "vllm", "xai")
"""Servers that are known to end each stream with `[DONE]`."""

OTHERS = ("openai", "groq", "llama-cpp", "mistral")


def ended(name: str, *chunks: Json, done: bool = False) -> list[Event]:
    base = "https://backend.test/openai/v1"
    adapter = REGISTRY.build(name, Endpoint(name="acme", base_url=base))
    return translate(adapter, CHAT, [stream(*chunks, done=done)])


def announced(chunk: Json) -> Json:
    return {**chunk, "usage": None}


@pytest.mark.parametrize("name", [*KNOWN, *OTHERS])
def test_usage_after_every_finish_is_as_good_an_end_as_the_mark(name: str) -> None:
    for chunks in ((TEXT, STOP, COUNTED), (TEXT, {**STOP, "usage": USAGE})):
        found = ended(name, *chunks)

        assert folded(found).choices[0].text == "Tea."
        assert found == ended(name, *chunks, done=True)


@pytest.mark.parametrize("name", [*KNOWN, *OTHERS])
def test_usage_before_the_finish_is_no_end(name: str) -> None:
    with pytest.raises(UpstreamBroken, match="acme: stream ended early"):
        ended(name, {**TEXT, "usage": USAGE})


@pytest.mark.parametrize("name", KNOWN)
def test_a_stream_with_neither_was_cut_where_the_server_is_known_to_mark_it(name: str) -> None:
    with pytest.raises(UpstreamBroken, match=r"acme: stream ended without \[DONE\]"):
        ended(name, TEXT, STOP)
    with pytest.raises(UpstreamBroken, match=r"acme: stream ended without \[DONE\]"):
        ended(name, {**TEXT, "usage": USAGE}, STOP)


@pytest.mark.parametrize("name", [*KNOWN, *OTHERS])
@pytest.mark.parametrize("frames", [(0,), (1,), (0, 1)])
def test_a_stream_that_announces_usage_and_ends_without_it_was_cut(
    name: str, frames: tuple[int, ...]
) -> None:
    chunks = [announced(one) if at in frames else one for at, one in enumerate((TEXT, STOP))]

    with pytest.raises(UpstreamBroken, match=r"acme: stream ended without \[DONE\]"):
        ended(name, *chunks)
    assert folded(ended(name, *chunks, COUNTED)).usage is not None
    assert folded(ended(name, *chunks, done=True)).choices[0].text == "Tea."


@pytest.mark.parametrize("name", OTHERS)
def test_a_server_of_which_nothing_is_known_may_send_neither(name: str) -> None:
    assert folded(ended(name, TEXT, STOP)).choices[0].text == "Tea."


@pytest.mark.parametrize(
    ("version", "marks"),
    [
        ("1.4.5-sha-4ee0a0c", False),
        ("2.0.4-sha-f426a33", False),
        ("2.1.1-native", False),
        ("2.2.0-sha-db7e043", True),
        ("3.3.6-native", True),
        ("10.0.0", True),
        ("fp_44709d6fcb", True),
    ],
)
def test_tgi_before_2_2_sends_no_mark(version: str, marks: bool) -> None:
    chunks = [{**one, "system_fingerprint": version} for one in (TEXT, STOP)]

    if not marks:
        assert folded(ended("tgi", *chunks)).choices[0].text == "Tea."
        assert folded(ended("tgi", *map(announced, chunks))).choices[0].text == "Tea."
        with pytest.raises(UpstreamBroken, match="acme: stream ended early"):
            ended("tgi", chunks[0])
    else:
        with pytest.raises(UpstreamBroken, match=r"acme: stream ended without \[DONE\]"):
            ended("tgi", *chunks)


def test_each_choice_has_to_finish_before_usage_is_an_end() -> None:
    both = (TEXT, delta({"content": "Milk."}, index=1), {**STOP, "usage": USAGE})

    with pytest.raises(UpstreamBroken, match="acme: stream ended early"):
        ended("vllm", *both)
    found = ended("vllm", *both, {**delta(finish="stop", index=1), "usage": USAGE})
    assert [one.text for one in folded(found).choices] == ["Tea.", "Milk."]


def counts(*usages: Json) -> Usage:
    found = ended("cloudflare", TEXT, STOP, *({**COUNTED, "usage": one} for one in usages))
    (*_, last) = (one for one in found if isinstance(one, Usage))
    return last


@pytest.mark.parametrize("later", [{"cached_tokens": 0}, {}, None])
def test_counts_that_are_repeated_without_their_details_keep_them(later: Json | None) -> None:
    first = {
        **USAGE,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }

    last = counts(first, {**USAGE, "completion_tokens": 4, "prompt_tokens_details": later})

    assert (last.prompt_tokens, last.completion_tokens) == (5, 4)
    assert (last.cached_tokens, last.reasoning_tokens) == (3, 1)


def test_later_counts_replace_earlier_ones_and_nothing_is_kept_of_0() -> None:
    zero = {"prompt_tokens": 0, "total_tokens": 0, "total_characters": 0}

    last = counts(zero, {**USAGE, "prompt_tokens_details": {"cached_tokens": 0}})

    assert (last.prompt_tokens, last.completion_tokens, last.cached_tokens) == (5, 2, 0)
    assert counts(USAGE, zero).prompt_tokens == 5


def test_usage_inside_a_choice_is_read_where_there_is_no_other() -> None:
    inside = delta(finish="stop", usage=USAGE)
    found = ended("moonshot", TEXT, inside)

    assert [one.total_tokens for one in found if isinstance(one, Usage)] == [7]
    both = ended("moonshot", TEXT, inside, {**COUNTED, "usage": {**USAGE, "total_tokens": 8}})
    assert [one.total_tokens for one in both if isinstance(one, Usage)] == [7, 8]
