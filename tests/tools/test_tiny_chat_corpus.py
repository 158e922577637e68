"""The bundled model's training text keeps its promises; pure Python, no torch."""

import itertools
import json
import random
import re
from typing import cast

import jsonschema
import pytest

from tools.tiny_chat import asks, tool_talk
from tools.tiny_chat.corpus import held_out, pairs, word
from tools.tiny_chat.documents import documents, tool_exchange
from tools.tiny_chat.functions import Function
from tools.tiny_chat.layout import Exchange

SUM = re.compile(r"(\d+) \+ (\d+) = (\d+)")


def texts(seed: int, count: int) -> list[str]:
    drawn = itertools.islice(documents(random.Random(seed), longest_turns=8), count)
    return ["".join(segment.text for segment in document) for document in drawn]


def test_a_tenth_of_the_pairs_at_least_is_held_out_in_both_orders() -> None:
    held = set(pairs(held=True))

    assert len(held) >= 1000
    assert {(b, a) for a, b in held} == held
    assert held.isdisjoint(pairs(held=False))


def test_sums_of_single_digits_are_all_taught() -> None:
    assert not any(held_out(a, b) for a in range(10) for b in range(10))


def test_no_training_text_states_a_sum_that_is_held_out() -> None:
    stated = {(int(a), int(b)) for a, b, _ in SUM.findall("\n".join(texts(3, 4500)))}

    assert len(stated) > 2000
    assert not any(held_out(a, b) for a, b in stated)


def test_every_sum_in_the_training_text_is_right() -> None:
    found = SUM.findall("\n".join(texts(4, 1000)))

    assert all(int(a) + int(b) == int(c) for a, b, c in found)


def test_the_same_seed_draws_the_same_text() -> None:
    assert texts(5, 50) == texts(5, 50)
    assert texts(5, 50) != texts(6, 50)


def talks(seed: int, count: int) -> list[tuple[tuple[Function, ...], Exchange]]:
    """Questions where functions are offered."""
    rng = random.Random(seed)
    drawn: list[tuple[tuple[Function, ...], Exchange]] = []
    for _ in range(count):
        offers = tool_talk.offered(rng, word)
        drawn.append((offers, tool_exchange(rng, offers)))
    return drawn


def test_every_call_matches_the_schema_of_a_function_that_is_offered() -> None:
    found = 0
    for offers, exchange in talks(6, 2000):
        if exchange.call is not None:
            (function,) = [each for each in offers if each.name == exchange.call.name]
            validator = jsonschema.Draft202012Validator(function.parameters)
            validator.validate(exchange.call.arguments)  # pyright: ignore[reportUnknownMemberType]  # jsonschema
            found += 1

    assert found > 500


def test_every_call_takes_its_values_from_the_question() -> None:
    for _, exchange in talks(7, 2000):
        if exchange.call is not None:
            for value in exchange.call.arguments.values():
                known = {"celsius", "metric", "short", "24h", "en"}
                parts = (
                    [str(part) for part in cast("list[int]", value)]
                    if isinstance(value, list)
                    else [str(value)]
                )
                assert all(part in exchange.ask or part in known for part in parts)


def test_no_function_for_another_purpose_is_called() -> None:
    for offers, exchange in talks(8, 2000):
        intents = {each.name: each.intent for each in offers}
        assert exchange.call is None or intents[exchange.call.name] != "other"


def test_a_question_that_an_offered_function_answers_is_always_a_call() -> None:
    for offers, exchange in talks(9, 2000):
        intents = {each.intent for each in offers}
        if exchange.call is None and "sum" in intents:
            assert not SUM.match(exchange.reply)


@pytest.mark.parametrize(
    ("result", "read"),
    [
        ('{"temperature": 18, "sky": "clear"}', "temperature 18, sky clear"),
        ('{"a":1,"b":{"c":[2]}}', "a 1,b c [2]"),
        (" 14:30\n", "14:30"),
        ('He said "no".', 'He said "no".'),
        ("{}", ""),
    ],
)
def test_a_result_is_read_without_the_punctuation_of_json(result: str, read: str) -> None:
    assert tool_talk.read_result(result) == read


def test_the_same_seed_asks_the_same_questions() -> None:
    first, again = (
        [asks.city_ask(rng, "time", word, asks.city_name(rng, word)) for _ in range(50)]
        for rng in (random.Random(1), random.Random(1))
    )

    assert first == again


def test_calls_are_written_as_json() -> None:
    for _, exchange in talks(10, 300):
        if exchange.call is not None:
            text = tool_talk.call_text(exchange.call).removeprefix(tool_talk.CALL)
            read = json.loads(text.removesuffix(tool_talk.CALLED))
            assert read == {"name": exchange.call.name, "arguments": exchange.call.arguments}
