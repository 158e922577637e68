"""Tokenize text that arrives in pieces, independent of how it is split.

A tokenizer may read the end of a text differently once more of it is known. So text is cut where
words begin, by a rule that depends on the text alone, and every part is tokenized once its end is
known: the cuts match those of common tokenizers, so the result is nearly always what they make of
the whole text, and it always decodes to exactly the text.
"""

import re
import unicodedata
from collections.abc import Sequence

from strowger_gateway.gateway.backends.upstream.adaptation.tokenizer import (
    NotTokenizable,
    TextTokenizer,
)
from strowger_gateway.gateway.backends.upstream.own_limits import untranslatable
from strowger_gateway.local_engine.text.detokenizer import Detokenizer

LONGEST = 32
"""Maximum characters of a part without a word start, as in Chinese; also of what is held back."""

_BORDER = re.compile(r"(?<=\S) (?=\S)|(?<=[^\W_])(?=[^\w\s'’]|_|\n)")
"""A single space before a word, or a character after a letter or digit that is neither."""

_JOINED = frozenset({"Mn", "Mc", "Me", "Cf", "Sk"})
"""Categories of characters that belong to the preceding one."""

Piece = tuple[int, str]
"""A token, and the text that it completes."""


def parts(text: str, *, over: bool) -> list[str]:
    """Return the parts at the start of `text` that more text would not change.

    over: no more text will come, so these are all parts.
    """
    found: list[str] = []
    start = 0
    for border in _BORDER.finditer(text):
        at = border.start()
        if unicodedata.category(text[at]) in _JOINED:
            continue
        while at - start > LONGEST:
            found.append(text[start : start + LONGEST])
            start += LONGEST
        found.append(text[start:at])
        start = at
    while len(text) - start > LONGEST + 1:
        found.append(text[start : start + LONGEST])
        start += LONGEST
    if over and start < len(text):
        found.append(text[start:])
    return found


class StreamTokenizer:
    """Turn the text of one answer into tokens, each with the text that it completes."""

    def __init__(self, tokenizer: TextTokenizer, prompt: Sequence[int], upstream: str) -> None:
        """prompt: the tokens that the answer continues. upstream: for errors."""
        self._tokenizer = tokenizer
        self._upstream = upstream
        self._pieces = Detokenizer(_Plain(tokenizer), prompt)
        self._held = ""

    def feed(self, text: str, *, over: bool = False) -> list[Piece]:
        """over: no more text will come.

        Raises UpstreamFailed for text without matching tokens.
        """
        return [piece for part in self._parts(text, over=over) for piece in self._spelt(part)]

    def feed_whole(self, text: str, *, over: bool = False) -> tuple[tuple[int, ...], str]:
        """Return the tokens and the text of all pieces that `feed` would return.

        For answers that are not read in pieces: which token completes which text is not found out,
        so `feed` must not be called afterwards. over: as for `feed`.
        """
        parts = self._parts(text, over=over)
        return tuple([id for part in parts for id in self._ids(part)]), "".join(parts)

    def _parts(self, text: str, *, over: bool) -> list[str]:
        self._held += text
        found = parts(self._held, over=over)
        self._held = self._held[sum(map(len, found)) :]
        return found

    def _ids(self, part: str) -> tuple[int, ...]:
        try:
            return self._tokenizer.spell(part)
        except NotTokenizable as exc:
            raise untranslatable(
                f"the tokenizer has no tokens for {part!r}, a part of the answer", self._upstream
            ) from exc

    def _spelt(self, part: str) -> list[Piece]:
        ids = self._ids(part)
        texts = [self._pieces.feed(id) for id in ids]
        if "".join(texts) != part:
            texts = [*([""] * (len(ids) - 1)), part]
        return list(zip(ids, texts, strict=True))


class _Plain:
    """Decode with special tokens shown, as they appeared in the text."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer

    def decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, special=True)
