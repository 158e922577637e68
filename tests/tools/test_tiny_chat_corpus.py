"""The bundled model's training text keeps its promises; pure Python, no torch."""

import itertools
import random
import re

from tools.tiny_chat.corpus import documents, held_out, pairs

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
    stated = {(int(a), int(b)) for a, b, _ in SUM.findall("\n".join(texts(3, 3000)))}

    assert len(stated) > 2000
    assert not any(held_out(a, b) for a, b in stated)


def test_every_sum_in_the_training_text_is_right() -> None:
    found = SUM.findall("\n".join(texts(4, 1000)))

    assert all(int(a) + int(b) == int(c) for a, b, c in found)


def test_the_same_seed_draws_the_same_text() -> None:
    assert texts(5, 50) == texts(5, 50)
    assert texts(5, 50) != texts(6, 50)
