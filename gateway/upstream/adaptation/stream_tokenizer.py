"""Text that arrives in pieces, as tokens, the same whatever the pieces are.

A tokenizer may read the end of a text differently once more of it is there. So text is cut where
words begin, by a rule that looks at the text alone, and every part is turned into tokens when its
end is known: cut as the common tokenizers' own rules cut, what comes out is nearly always what they
make of the whole text, and it always decodes to exactly the text.
"""

import re
import unicodedata
from collections.abc import Sequence

from gateway.upstream.adaptation.tokenizer import NotTokenizable, TextTokenizer
from local_engine.text.detokenizer import Detokenizer
from schemas.errors import UpstreamFailed

LONGEST = 32
"""Characters of a part where no word begins, as in Chinese; also the most that is held back."""

_BORDER = re.compile(r"(?<=\S) (?=\S)|(?<=[^\W_])(?=[^\w\s'’]|_|\n)")
"""A single space before a word, or what follows a letter or digit and is neither."""

_JOINED = frozenset({"Mn", "Mc", "Me", "Cf", "Sk"})
"""Categories of characters that belong to the one before them."""

Piece = tuple[int, str]
"""A token, and the text that is complete with it."""


def next_part(text: str, *, over: bool) -> int:
    """The length of the first part of `text`, 0 while more text may still decide it."""
    for border in _BORDER.finditer(text):
        at = border.start()
        if at > LONGEST:
            break
        if unicodedata.category(text[at]) not in _JOINED:
            return at
    if len(text) > LONGEST + 1:
        return LONGEST
    return len(text) if over else 0


class StreamTokenizer:
    """Feed it the text of one answer; it gives tokens, each with the text that it completes."""

    def __init__(self, tokenizer: TextTokenizer, prompt: Sequence[int], upstream: str) -> None:
        """prompt: what the answer continues. upstream: for errors."""
        self._tokenizer = tokenizer
        self._upstream = upstream
        self._pieces = Detokenizer(_Plain(tokenizer), prompt)
        self._held = ""

    def feed(self, text: str, *, over: bool = False) -> list[Piece]:
        """over: no more text will come.

        Raises UpstreamFailed for text that no tokens give.
        """
        self._held += text
        pieces: list[Piece] = []
        while self._held and (length := next_part(self._held, over=over)):
            part, self._held = self._held[:length], self._held[length:]
            pieces += self._spelt(part)
        return pieces

    def _spelt(self, part: str) -> list[Piece]:
        try:
            ids = self._tokenizer.spell(part)
        except NotTokenizable as exc:
            raise UpstreamFailed(
                f"the tokenizer has no tokens for {part!r}, which is part of the answer",
                upstream=self._upstream,
            ) from exc
        texts = [self._pieces.feed(id) for id in ids]
        if "".join(texts) != part:
            texts = [*([""] * (len(ids) - 1)), part]
        return list(zip(ids, texts, strict=True))


class _Plain:
    """Decodes with special tokens shown, as they stood in the text."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer

    def decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, special=True)
