"""Text in pieces becomes the same tokens however it is split, and they decode to it."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

from strowger_gateway.gateway.backends.upstream.adaptation.stream_tokenizer import (
    LONGEST,
    StreamTokenizer,
    parts,
)
from strowger_gateway.gateway.backends.upstream.adaptation.tokenizer import TextTokenizer
from strowger_gateway.schemas.errors import UpstreamFailed
from tests.examples import examples
from tests.gateway.backends.upstream.adaptation.vocabularies import (
    FAMILIES,
    byte_level,
    cut,
    family,
    reads,
)

PROMPT = "the dog"

texts = st.lists(
    st.one_of(
        st.text(max_size=6),
        st.sampled_from(
            ["the quick fox", " ", "  ", "\n\n    ", "it's", "foo_bar(self).x", "你好世界", "，",
             "é", "e\u0301", "🎉", "👩‍👩‍👧", "12345", "</s>", "<|user|>", "\x00", "a" * 40]
        ),
    ),
    max_size=8,
).map("".join)  # fmt: skip


def spelt(tokenizer: TextTokenizer, *deltas: str) -> list[tuple[int, str]]:
    speller = StreamTokenizer(tokenizer, tokenizer.encode(PROMPT), "far")
    pieces = [piece for delta in deltas for piece in speller.feed(delta)]
    return pieces + speller.feed("", over=True)


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=examples(60), deadline=None)
@given(text=texts)
@example(text=" leading and trailing ")
@example(text="Hello  world\n\n  indented, it's 你好 🎉.")
def test_the_tokens_of_a_text_decode_to_exactly_the_text(name: str, text: str) -> None:
    tokenizer = family(name)

    ids = tuple(id for id, _ in spelt(tokenizer, text))

    prompt = tokenizer.encode(PROMPT)
    assert tokenizer.decode(prompt + ids, special=True) == (
        tokenizer.decode(prompt, special=True) + text
    )


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=examples(40), deadline=None)
@given(text=texts, places=st.lists(st.integers(0, 200), max_size=6))
@example(text="a \ufffd b\ufffd c", places=[3])
def test_how_a_text_arrives_never_shows(name: str, text: str, places: list[int]) -> None:
    tokenizer = family(name)

    pieces = spelt(tokenizer, *cut(text, places))

    assert pieces == spelt(tokenizer, text)
    assert pieces == spelt(tokenizer, *text)
    assert "".join(piece for _, piece in pieces) == text


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=examples(40), deadline=None)
@given(text=texts, places=st.lists(st.integers(0, 200), max_size=6))
@example(text="Hello  world\n\n  indented, it's 你好 🎉.", places=[3, 9])
def test_an_answer_that_is_read_as_a_whole_has_the_same_tokens_as_a_stream(
    name: str, text: str, places: list[int]
) -> None:
    tokenizer = family(name)
    speller = StreamTokenizer(tokenizer, tokenizer.encode(PROMPT), "far")

    whole = [speller.feed_whole(piece) for piece in cut(text, places)]
    whole.append(speller.feed_whole("", over=True))

    assert [id for ids, _ in whole for id in ids] == [id for id, _ in spelt(tokenizer, text)]
    assert "".join(piece for _, piece in whole) == text


@pytest.mark.parametrize("name", ["byte-level", "tiny-chat"])
def test_ordinary_text_becomes_what_the_tokenizer_makes_of_the_whole(name: str) -> None:
    tokenizer = family(name)
    text = (
        " the quick brown fox doesn't mind; def area(self, width):\n    return self.scale * width"
        "\n\nGrüße aus München, naïve café. 12345 and 67!"
    )

    ids = tuple(id for id, _ in spelt(tokenizer, text))

    assert ids == tokenizer.encode(text, special=False)


@settings(deadline=None)
@given(text=texts)
def test_no_more_than_one_part_is_ever_held_back(text: str) -> None:
    held = ""
    found: list[str] = []

    for character in text:
        held += character
        ready = parts(held, over=False)
        held = held[sum(map(len, ready)) :]
        found += ready

        assert len(held) <= LONGEST + 1
    found += parts(held, over=True)

    assert found == parts(text, over=True)
    assert all(len(part) <= LONGEST for part in found[:-1])
    assert "".join(found) == text


def test_a_word_goes_out_when_the_next_one_begins() -> None:
    speller = StreamTokenizer(family("byte-level"), (), "far")

    first = speller.feed("the dog")
    then = speller.feed(" mi")

    assert "".join(piece for _, piece in first) == "the"
    assert "".join(piece for _, piece in then) == " dog"


def test_text_that_no_tokens_give_is_an_error_and_not_other_text() -> None:
    tokenizer = family("word-piece")

    with pytest.raises(UpstreamFailed, match="far: the tokenizer has no tokens for 'The'"):
        spelt(tokenizer, "The Dog")


def test_decomposed_characters_survive_a_tokenizer_that_composes_them() -> None:
    tokenizer = reads(byte_level(normal=True))

    ids = tuple(id for id, _ in spelt(tokenizer, "e\u0301"))

    assert tokenizer.decode(ids) == "e\u0301"
    assert tokenizer.decode(tokenizer.encode("e\u0301")) == "\u00e9"
