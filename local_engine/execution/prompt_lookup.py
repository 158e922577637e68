"""Prompt lookup: propose as drafts what followed the same tokens earlier.

Answers repeat their prompt and themselves: quoted text, edited code, lists. Such drafts cost one
table lookup (https://github.com/apoorvumang/prompt-lookup-decoding has measurements). Their number
adapts to the acceptance of the last ones.
"""

from collections.abc import Sequence

LONG, SHORT = 3, 2
"""Tokens that must match; the longer match is preferred."""

MAX_PAUSE = 64
"""Most steps without a proposal after consecutive rejected ones."""


class PromptLookup:
    """One answer's lookup table. Call `propose` before a step and `learn` after it."""

    def __init__(self, most: int) -> None:
        """most: drafts per step, at least 1."""
        self._most = most
        self._ends: dict[tuple[int, ...], int] = {}
        self._read = 0
        self._width = max(1, most // 2)
        self._misses = 0
        self._pause = 0

    def propose(self, tokens: Sequence[int]) -> list[int]:
        """Return up to `most` drafts for the tokens after `tokens`, possibly none.

        If the match ends near the end of the tokens, the period is repeated.
        Each call may pass more tokens than the previous one; earlier tokens must not change.
        """
        self._index(tokens)
        if self._pause > 0:
            self._pause -= 1
            return []
        for size in (LONG, SHORT):
            end = self._ends.get(tuple(tokens[-size:]))
            if len(tokens) > size and end is not None:
                period = len(tokens) - end
                return [tokens[end + place % period] for place in range(self._width)]
        return []

    def learn(self, proposed: int, accepted: int) -> None:
        """Adapt to the result of a step: if it accepted all drafts, double the next proposal; if
        none, halve it. Consecutive rejected proposals cause a pause of growing length."""
        if proposed == 0:
            return
        if accepted == proposed:
            self._width = min(2 * self._width, self._most)
        elif accepted == 0:
            self._width = max(1, self._width // 2)
        self._misses = 0 if accepted else self._misses + 1
        if self._misses:
            self._pause = min(1 << self._misses, MAX_PAUSE)

    def _index(self, tokens: Sequence[int]) -> None:
        """Record where each run of tokens last ended, except the run at the end of the answer."""
        for end in range(max(self._read, SHORT), len(tokens)):
            for size in (LONG, SHORT):
                if end >= size:
                    self._ends[tuple(tokens[end - size : end])] = end
        self._read = max(self._read, len(tokens))
