"""The limit on a prompt's characters never rejects a text that would fit."""

# tokenizers annotates these members in part only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from strowger_gateway.local_engine.text.text_length import BLANKS, Reach, reach_of
from strowger_gateway.schemas.errors import InvalidRequest
from tests.examples import examples
from tests.local_engine.tiny import tokenizer

PIECES = ["a", "b", "ab", "abab", "▁", "▁a", "▁▁▁", "<unk>", "á"]
VOCABULARY = {piece: id for id, piece in enumerate(PIECES)}
MERGES = [("a", "b"), ("ab", "ab"), ("▁", "a")]


def plain(*, fuse: bool = False) -> Tokenizer:
    return Tokenizer(models.BPE(vocab=VOCABULARY, merges=MERGES, unk_token="<unk>", fuse_unk=fuse))


def byte_level() -> Tokenizer:
    made = tokenizer("byte_level")
    made.add_tokens([AddedToken("<stripping>", lstrip=True, rstrip=True)])
    return made


def composing() -> Tokenizer:
    made = tokenizer("byte_level")
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip()])
    return made


def replacing() -> Tokenizer:
    made = plain()
    made.normalizer = normalizers.Replace("baba", "a")
    return made


def dropping() -> Tokenizer:
    made = plain()
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made


BOUNDED = {
    "byte level": byte_level,
    "byte fallback": lambda: tokenizer("byte_fallback"),
    "one unknown token per character": plain,
    "composition and stripping": composing,
    "shorter replacements": replacing,
    "white space removed": dropping,
}


def unigram() -> Tokenizer:
    return Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0), ("▁a", -1.5)], unk_id=0))


def word_piece() -> Tokenizer:
    made = Tokenizer(models.WordPiece(vocab={"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made


def vanishing() -> Tokenizer:
    made = tokenizer("byte_level")
    made.normalizer = normalizers.StripAccents()
    return made


def cutting() -> Tokenizer:
    made = plain()
    made.pre_tokenizer = pre_tokenizers.Split("b", "removed")
    return made


UNBOUNDED = {
    "unigram": (unigram, "é" * 5000),
    "word piece": (word_piece, "é" * 5000),
    "accents removed": (vanishing, "\u0301" * 5000),
    "fused unknown tokens": (lambda: plain(fuse=True), "é" * 5000),
    "pieces cut out": (cutting, "b" * 5000),
}

TEXTS = st.lists(
    st.sampled_from(
        [
            *("a", "b", "ab", "abab", "baba", " ", "   ", *BLANKS, "▁", "é", "e\u0301", "世", "🎉"),
            *("\u03b1\u0313\u0300\u0345", "\u1100\u1161\u11a8", "<stripping>", "the", "</s>"),
        ]
    ),
    max_size=60,
).map("".join)


@pytest.mark.parametrize("name", BOUNDED)
@settings(deadline=None, max_examples=examples(100))
@given(text=st.one_of(TEXTS, st.text(max_size=40)))
def test_a_text_that_fits_is_never_refused(name: str, text: str) -> None:
    library = MADE[name]
    tokens = len(library.encode(text, add_special_tokens=False).ids)

    assert reach_of(SOURCES[name], tokens).fits(text)


@pytest.mark.parametrize("name", BOUNDED)
def test_a_text_that_cannot_fit_is_refused_by_its_length(name: str) -> None:
    reach = reach_of(SOURCES[name], 10)
    assert reach.characters is not None
    letters = random.Random(1).choices("abc", k=10 * reach.characters + 1)

    with pytest.raises(InvalidRequest, match=r"prompt has \d+ characters, which need more") as no:
        reach.refuse("".join(letters), "prompt")

    assert no.value.code == "context_length_exceeded"


@pytest.mark.parametrize("name", UNBOUNDED)
def test_a_tokenizer_for_which_any_text_may_be_a_few_tokens_has_no_bound(name: str) -> None:
    make, text = UNBOUNDED[name]
    library = make()

    assert len(library.encode(text, add_special_tokens=False).ids) <= 1
    assert reach_of(library.to_str(), 10) == Reach(tokens=10)


MADE = {name: make() for name, make in BOUNDED.items()}
SOURCES = {name: library.to_str() for name, library in MADE.items()}
