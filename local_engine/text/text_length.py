"""Reject texts that are too long by their characters, before tokenizing them.

`reach_of` finds the most characters that one token of a tokenizer can cover. A text with more
characters than all tokens together cover cannot fit. If text may vanish or become one unknown
token, there is no such number, and the text is tokenized and counted.
"""

from collections.abc import Iterable
from math import ceil
from typing import cast

import msgspec
from msgspec import Struct

from strowger_gateway.local_engine.text.token_bytes import byte_table
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.prompt_too_long import CONTEXT_LENGTH, too_long_message

COMPOSED = 4
"""Most characters that Unicode composition joins to one (U+1F82 is U+03B1 and three marks)."""

BLANKS = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
    "\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode's White_Space."""

BYTES = 256

_JSON = dict[str, object]


class Reach(Struct, frozen=True, kw_only=True):
    """The longest prompt of a model.

    tokens:     tokens of the longest prompt.
    characters: most characters per token; `None`: unlimited.
    blanks:     runs of white space may vanish, so they do not count.
    """

    tokens: int
    characters: int | None = None
    blanks: bool = False

    def fits(self, text: str) -> bool:
        """False only for a text that certainly has more tokens than `tokens`."""
        if self.characters is None or len(text) <= self.tokens * self.characters:
            return True
        blanks = sum(map(text.count, BLANKS)) if self.blanks else 0
        return len(text) - blanks <= self.tokens * self.characters

    def refuse(self, text: str, field: str) -> None:
        """Raises InvalidRequest for a text that cannot fit."""
        if not self.fits(text):
            raise InvalidRequest(
                too_long_message(
                    f"{field} has {len(text)} characters, which need more than the "
                    f"{self.tokens} tokens that the model supports; shorten it"
                ),
                param=field,
                code=CONTEXT_LENGTH,
            )

    def refuse_count(self, count: int, field: str = "prompt") -> None:
        """Raises InvalidRequest for too many tokens."""
        if count > self.tokens:
            raise InvalidRequest(
                too_long_message(
                    f", prompt and answer together, and the prompt has {count}; shorten it to at "
                    f"most {self.tokens}",
                    self.tokens + 1,
                ),
                param=field,
                code=CONTEXT_LENGTH,
            )


class _Tokenizer(Struct, frozen=True, kw_only=True):
    model: _JSON
    added_tokens: list[_JSON] = []
    normalizer: _JSON | None = None
    pre_tokenizer: _JSON | None = None


class _Unbounded(Exception):
    """Text may vanish, or become one token regardless of its length."""


def reach_of(description: str, tokens: int) -> Reach:
    """Return the Reach. description: content of tokenizer.json. tokens: of the longest prompt."""
    try:
        read = msgspec.json.decode(description, type=_Tokenizer)
        shrinks, blanks = _normalizing(_steps(read.normalizer, "normalizers"))
        dropping, byte_level = _splitting(_steps(read.pre_tokenizer, "pretokenizers"))
        byte_level = byte_level or _has(read.normalizer, "normalizers", "ByteLevel")
        longest = _longest(read, byte_level)
    except (_Unbounded, msgspec.ValidationError):
        return Reach(tokens=tokens)
    added = any(token.get("lstrip") or token.get("rstrip") for token in read.added_tokens)
    return Reach(
        tokens=tokens, characters=longest * shrinks, blanks=blanks or dropping or bool(added)
    )


def _steps(step: _JSON | None, members: str) -> list[_JSON]:
    if step is None:
        return []
    if step.get("type") == "Sequence":
        return [
            inner
            for one in cast(list[_JSON], step.get(members, []))
            for inner in _steps(one, members)
        ]
    return [step]


def _has(step: _JSON | None, members: str, kind: str) -> bool:
    return any(one.get("type") == kind for one in _steps(step, members))


def _normalizing(steps: Iterable[_JSON]) -> tuple[int, bool]:
    """Return how many characters may become one, and whether white space may vanish."""
    shrinks, blanks = 1, False
    for step in steps:
        match step.get("type"):
            case "NFC" | "NFKC":
                shrinks *= COMPOSED
            case "NFD" | "NFKD" | "Lowercase" | "Prepend" | "ByteLevel":
                continue
            case "Strip":
                blanks = True
            case "Replace":
                shrinks *= _replaced(step)
            case _:
                raise _Unbounded
    return shrinks, blanks


def _replaced(step: _JSON) -> int:
    pattern = cast(_JSON, step.get("pattern", {})).get("String")
    content = step.get("content")
    if not isinstance(pattern, str) or not isinstance(content, str) or not content:
        raise _Unbounded
    return ceil(len(pattern) / len(content))


def _splitting(steps: Iterable[_JSON]) -> tuple[bool, bool]:
    """Return whether white space is dropped, and whether bytes become characters."""
    dropping = byte_level = False
    for step in steps:
        match step.get("type"):
            case "ByteLevel":
                byte_level = True
            case "Metaspace" | "Digits" | "UnicodeScripts" | "FixedLength":
                continue
            case "Split" | "Punctuation" if step.get("behavior") not in (None, "Removed"):
                continue
            case "Whitespace" | "WhitespaceSplit" | "BertPreTokenizer":
                dropping = True
            case _:
                raise _Unbounded
    return dropping, byte_level


def _longest(read: _Tokenizer, byte_level: bool) -> int:
    """Return the characters of the longest token; the model must not drop characters."""
    model = read.model
    vocabulary = model.get("vocab")
    if model.get("type") == "BPE" and isinstance(vocabulary, dict):
        pieces = set(cast(dict[str, int], vocabulary))
        fused = bool(model.get("fuse_unk")) or model.get("unk_token") is None
    elif model.get("type") == "Unigram" and isinstance(vocabulary, list):
        pieces = {one[0] for one in cast(list[tuple[str, float]], vocabulary)}
        fused = True
    else:
        raise _Unbounded
    fallback = bool(model.get("byte_fallback")) and all(
        f"<0x{byte:02X}>" in pieces for byte in range(BYTES)
    )
    spelt = byte_level and all(character in pieces for character in byte_table())
    if fused and not fallback and not spelt:
        raise _Unbounded
    added = (len(cast(str, token.get("content", ""))) for token in read.added_tokens)
    return max(1, *map(len, pieces), *added)
