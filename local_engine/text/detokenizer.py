"""Tokens to text one at a time, never half a character."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

CONTEXT = 6
"""Tokens before the answer that are decoded with it, so that its first space survives."""

PATIENCE = 8
"""Tokens that may be held back: a character has four bytes at most, so more can't complete it."""


class Decodes(Protocol):
    def decode(self, ids: list[int]) -> str: ...


class Detokenizer:
    """Decodes a sliding window twice, without and with the newest tokens; the difference is new.

    Tokenizers decide about spaces by what stands before, so a token's text is only known in its
    window. A window that ends inside a character ends in U+FFFD and is kept back.
    """

    def __init__(
        self,
        tokenizer: Decodes,
        prompt: Sequence[int],
        literals: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """prompt: what the answer continues; only its last tokens are read.

        literals: special tokens whose text is shown, although the tokenizer leaves it out.
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
        """The text that is complete with this token, often "" inside a character."""
        if token in self._literals:
            return self.close() + self._literals[token]
        self._window.append(token)
        self._fresh += 1
        text = self._tokenizer.decode(self._window)
        if text.endswith("\ufffd") and self._fresh < PATIENCE:
            return ""
        return self._accept(text)

    def close(self) -> str:
        """The rest, incomplete characters as U+FFFD."""
        return self._accept(self._tokenizer.decode(self._window)) if self._fresh else ""

    def _accept(self, text: str) -> str:
        new = text[len(self._known) :]
        if new or self._fresh >= PATIENCE:
            self._window = self._window[-self._fresh :]
            self._known = self._tokenizer.decode(self._window)
            self._fresh = 0
        return new
