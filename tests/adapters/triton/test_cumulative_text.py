"""Cumulative text and deltas are distinguished, and the answer is complete in both cases."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.triton.cumulative_text import CumulativeText
from strowger_gateway.adapters.triton.stop_strings import StopStrings

WORDS = st.lists(st.sampled_from([" the", " red", " fox", ".", " é", " 1", "0"]), min_size=1)


def shown(events: list[str], *, deltas: bool = False) -> str:
    text = CumulativeText(deltas=deltas)
    return "".join([*(text.add(one) for one in events), text.close()])


@given(WORDS)
def test_cumulative_text_is_emitted_once(words: list[str]) -> None:
    cumulative = ["".join(words[: count + 1]) for count in range(len(words))]

    assert shown(cumulative) == "".join(words)


@given(st.text(alphabet="aé漢😀 ", min_size=2))
def test_cumulative_text_with_unfinished_characters_is_emitted_once(text: str) -> None:
    data = text.encode()
    cumulative = [data[: count + 1].decode(errors="replace") for count in range(len(data))]

    assert shown(cumulative) == text


@given(WORDS)
def test_deltas_are_emitted_unchanged_if_they_are_known_to_be_deltas(words: list[str]) -> None:
    assert shown(words, deltas=True) == "".join(words)


@given(WORDS)
def test_a_text_that_does_not_start_with_the_one_before_shows_that_texts_are_deltas(
    words: list[str],
) -> None:
    assert shown([" a", " b", *words]) == " a b" + "".join(words)


def test_repeated_deltas_are_deltas() -> None:
    assert shown([" ha"] * 30) == " ha" * 30
    assert shown(["\n", "\n"]) == "\n\n"


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_cumulative_text_that_is_empty_after_its_stop_string_is_emitted_once(count: int) -> None:
    cumulative = [" a" * (place + 1) for place in range(count)]

    assert shown([*cumulative, "", ""]) == " a" * count


def test_repeated_deltas_are_not_held_until_the_end() -> None:
    text = CumulativeText()

    assert "".join(text.add(" ha") for _ in range(12)) == " ha" * 12


def test_broken_characters_prove_nothing() -> None:
    assert shown(["\ufffd", "\ufffd", " the"]) == "\ufffd\ufffd the"


def test_empty_pieces_prove_nothing() -> None:
    assert shown(["", "", " a", " b", ""]) == " a b"


@pytest.mark.parametrize("stops", [("END",), ("aab", "ab"), ("b", "abc"), ("", "c")])
@given(text=st.text(alphabet="abc") | st.text(alphabet="abEND"), places=st.sets(st.integers(0, 30)))
def test_text_is_cut_at_the_first_stop_string_however_it_is_fed(
    stops: tuple[str, ...], text: str, places: set[int]
) -> None:
    cuts = sorted({0, len(text), *(place for place in places if place < len(text))})
    feed = StopStrings(stops)
    found = [
        (place + len(stop), place) for stop in stops if stop and (place := text.find(stop)) >= 0
    ]
    wanted = text[: min(found)[1]] if found else text

    parts = [feed.feed(text[start:end]) for start, end in pairwise(cuts)]
    got = "".join([*parts, feed.close()])

    assert got == wanted
    assert bool(feed.found) == bool(found)
