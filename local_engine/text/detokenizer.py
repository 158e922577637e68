"""Decode tokens to text one at a time, never half a character."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

CONTEXT = 6
"""Prompt tokens decoded together with the answer, so that its first space is kept."""

PATIENCE = 8
"""Most tokens held back: a character has at most four bytes, so more tokens cannot complete it."""


class Decodes(Protocol):
    def decode(self, ids: list[int]) -> str: ...


class Detokenizer:
    """Decodes a sliding window twice, without and with the newest tokens; the difference is new.

    Tokenizers decide about spaces by the preceding tokens, so a token's text is only known in its
    window. A window that ends inside a character ends in U+FFFD and is held back.
    """

    def __init__(
        self,
        tokenizer: Decodes,
        prompt: Sequence[int],
        literals: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """prompt: the tokens before the answer; only the last ones are read.

        literals: special tokens whose text is shown although the tokenizer leaves it out.
        """
        self._tokenizer = tokenizer
        self._literals = literals
        self._window: list[int] = []
        self._known = ""
        self._fresh = 0
        for size in range(CONTEXT, CONTEXT + 4):
            window = list(prompt[-size:])
            known = tokenizer.decode(window) if window else ""
            if not known.startswith("\ufffd") and not known.endswith("\ufffd"):
                self._window, self._known = window, known
                break

    def feed(self, token: int) -> str:
        """Return the text that this token completes; "" inside a character."""
        if token in self._literals:
            return self.close() + self._literals[token]
        self._window.append(token)
        self._fresh += 1
        text = self._tokenizer.decode(self._window)
        if text.endswith("\ufffd") and self._fresh < PATIENCE:
            return ""
        return self._accept(text)

    def close(self) -> str:
        """Return the rest, with incomplete characters as U+FFFD."""
        return self._accept(self._tokenizer.decode(self._window)) if self._fresh else ""

    def _accept(self, text: str) -> str:
        new = text[len(self._known) :]
        if new or self._fresh >= PATIENCE:
            self._window = self._window[-self._fresh :]
            self._known = self._tokenizer.decode(self._window)
            self._fresh = 0
        return new
