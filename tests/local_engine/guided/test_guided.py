"""Masks compared with an oracle that knows the whole language, and how answers end."""

import asyncio
import random
import re
from contextlib import suppress

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.local_engine.guided.compiler import MaskedGrammar
from strowger_gateway.schemas.errors import InvalidRequest, Unavailable
from strowger_gateway.schemas.holdings import Holder
from tests.examples import examples
from tests.local_engine.guided.compiled_grammars import BACKEND, END, KNOWN, compiled, guide, guides
from tests.local_engine.tensor_values import integers
from tests.local_engine.tiny import VOCABULARY

A = '\nr%d: "a"'

pytestmark = pytest.mark.anyio

TEXTS = [BACKEND.decode([id], skip_special_tokens=True) for id in range(KNOWN)]
"""The text of each token; "" for special tokens, U+FFFD for parts of characters."""


def allowed(grammar: MaskedGrammar) -> set[int]:
    row = torch.zeros(VOCABULARY, dtype=torch.bool)
    grammar.allow(row)
    return set(integers(row.nonzero()))


def say(grammar: MaskedGrammar, text: str) -> None:
    for token in BACKEND.encode(text).ids:
        grammar.advance(token)


def oracle(words: frozenset[str], written: str) -> set[int]:
    """Return every token that continues some word, and the end token if a word is complete."""
    tokens = {
        id
        for id, text in enumerate(TEXTS)
        if text and any(word.startswith(written + text) for word in words)
    }
    return tokens | ({END} if written in words else set[int]())


def alternatives(words: frozenset[str]) -> str:
    pattern = "|".join(re.escape(word) for word in sorted(words))
    return f"start: /{pattern}/"


@given(
    words=st.frozensets(st.text("the qufox.", min_size=1, max_size=9), min_size=1, max_size=8),
    seed=st.integers(0, 1 << 30),
)
@settings(max_examples=examples(60))
async def test_a_mask_permits_the_tokens_that_continue_a_word_of_the_language(
    words: frozenset[str], seed: int
) -> None:
    grammar = await compiled(alternatives(words))
    chance = random.Random(seed)
    written = ""

    while not grammar.over:
        assert allowed(grammar) == oracle(words, written)
        token = chance.choice(sorted(allowed(grammar)))
        if token == END:
            break
        grammar.advance(token)
        written += TEXTS[token]

    assert written in words
    assert grammar.failure == ""


async def test_columns_beyond_the_tokenizer_are_never_permitted() -> None:
    grammar = await compiled(r"start: /(.|\n)*/")

    assert KNOWN < VOCABULARY
    assert max(allowed(grammar)) < KNOWN


async def test_an_answer_may_end_by_the_clients_own_token_where_the_grammar_may_end() -> None:
    grammar = await compiled("start: /the?/", ends=frozenset({4, 5}))
    first, second = allowed(grammar), allowed(grammar.fork())

    say(grammar, "th")

    assert first == second
    assert not first & {END, 4, 5}
    assert {4, 5} < allowed(grammar)
    assert END not in allowed(grammar)


async def test_a_complete_answer_without_an_end_token_is_over() -> None:
    grammar = await compiled("start: /the/", ends=frozenset())

    say(grammar, "the")

    assert grammar.over
    assert allowed(grammar) == {END}
    grammar.advance(END)
    assert grammar.failure == ""


async def test_a_fork_continues_independently() -> None:
    grammar = await compiled("start: /(a|b)c/")
    other = grammar.fork()

    say(grammar, "a")

    assert allowed(grammar) == {BACKEND.token_to_id("c")}
    assert BACKEND.token_to_id("b") in allowed(other)


async def test_a_token_that_was_not_permitted_is_a_failure() -> None:
    grammar = await compiled("start: /abc/")

    say(grammar, "x")

    assert "the grammar matcher failed" in grammar.failure
    assert not grammar.over


async def test_a_compiled_grammar_is_cached() -> None:
    """It is returned without a slot of a compiler thread."""
    keeper = guides()
    there: list[bool] = []
    for text in ("start: /a/", "start: /b/", "start: /a/", "start: /b/"):
        compiling = asyncio.create_task(keeper.compile(guide(text), frozenset()))
        await asyncio.sleep(0)
        there.append(compiling.done())
        await compiling

    assert there == [False, False, True, True]


async def test_many_requests_for_a_new_grammar_wait_for_one_compilation() -> None:
    keeper = guides()

    async with asyncio.timeout(60):
        grammars = await asyncio.gather(
            *(keeper.compile(guide("start: /together/"), frozenset()) for _ in range(200))
        )

    assert [grammar.failure for grammar in grammars] == [""] * 200


HOSTILE = "start: A\nA: /(.*a.{%d}.*)|q1/ & ~/(.*b.{%d}.*)/"
"""Compiles in more than half a minute."""


async def test_a_grammar_that_takes_too_long_is_refused_by_its_field_and_not_tried_again() -> None:
    slow, keeper = guide(HOSTILE % (16, 16)), guides(seconds=1)

    async def compile_patiently() -> None:
        while True:
            with suppress(Unavailable):  # other tests may keep the machine busy
                await keeper.compile(slow, frozenset())

    with pytest.raises(InvalidRequest, match="not compiled within 1 s of CPU time"):
        await compile_patiently()
    again = asyncio.create_task(keeper.compile(slow, frozenset()))
    await asyncio.sleep(0)

    assert again.done()
    with pytest.raises(InvalidRequest, match="it takes too long"):
        await again


async def test_hostile_grammars_of_one_tenant_do_not_affect_those_of_another() -> None:
    keeper = guides(seconds=60)
    hostile = [
        asyncio.create_task(
            keeper.compile(guide(HOSTILE % (16 + n, 16)), frozenset(), holder=Holder("hostile"))
        )
        for n in range(10)
    ]
    await asyncio.sleep(0.2)

    async with asyncio.timeout(60):
        for n in range(4):
            await keeper.compile(
                guide(f"start: /victim {n}/"), frozenset(), holder=Holder("victim")
            )

    assert not any(one.done() for one in hostile)
    for one in hostile:
        one.cancel()
    await asyncio.wait(hostile)
    assert [one for one in hostile if not one.cancelled()] == []


CHEAP = {
    "doubling": "start: r0\n" + "\n".join(f"r{n}: r{n + 1} r{n + 1}" for n in range(30)) + A % 30,
    "repeated": 'start: "a"{1000000}',
    "deep rules": "start: r0\n" + "\n".join(f"r{n}: r{n + 1}" for n in range(9000)) + A % 9000,
    "items": 'start: %json {"type":"array","items":{"maxLength":1000000},"minItems":1000000}',
}
REFUSED = {
    "deep groups": "start: " + "(" * 30_000 + '"a"' + ")" * 30_000,
    "deep pattern": "start: /" + "(" * 10_000 + "a" + ")" * 10_000 + "/",
    "deep JSON": "start: %json " + '{"anyOf":[' * 5000 + "{}" + "]}" * 5000,
}


@pytest.mark.parametrize("name", CHEAP)
async def test_a_short_grammar_of_a_huge_language_is_compiled_immediately(name: str) -> None:
    grammar = await guides().compile(guide(CHEAP[name]), frozenset({END}))

    assert allowed(grammar)


@pytest.mark.parametrize("name", REFUSED)
async def test_a_grammar_nested_too_deep_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="response_format: ") as caught:
        await guides().compile(guide(REFUSED[name]), frozenset({END}))

    assert "not compiled within" not in caught.value.message
