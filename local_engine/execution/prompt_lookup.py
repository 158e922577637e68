"""Prompt lookup: what followed the last tokens the last time, proposed as drafts.

Answers repeat their prompt and themselves: quoted text, edited code, lists. Guesses from there
cost a look into a table (https://github.com/apoorvumang/prompt-lookup-decoding has measurements).
How many are proposed follows how well the last ones did.
"""

from collections.abc import Sequence

LONG, SHORT = 3, 2
"""Tokens that must have been seen before; the longer match is preferred."""

MAX_PAUSE = 64
"""Steps without a proposal, at most, after a row of useless ones."""


class PromptLookup:
    """One answer's table. Call `propose` before a step and `learn` after it."""

    def __init__(self, most: int) -> None:
        """most: drafts a step, at least 1."""
        self._most = most
        self._ends: dict[tuple[int, ...], int] = {}
        self._read = 0
        self._width = max(1, most // 2)
        self._misses = 0
        self._pause = 0

    def propose(self, tokens: Sequence[int]) -> list[int]:
        """Up to `most` guesses of what follows `tokens`; none is an answer too.

        Where the match ends near the end of the tokens, they are taken to go round and round.
        Each call may be given more tokens than the one before, the earlier ones unchanged.
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
        """Of `proposed` drafts `accepted` were right: all make the next guess longer, none
        shorter, and after several useless ones there is a pause."""
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
        """Note where each run of tokens ended last, but for the one that the answer ends with."""
        for end in range(max(self._read, SHORT), len(tokens)):
            for size in (LONG, SHORT):
                if end >= size:
                    self._ends[tuple(tokens[end - size : end])] = end
        self._read = max(self._read, len(tokens))
