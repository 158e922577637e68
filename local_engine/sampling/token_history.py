"""The sampler's memory of one answer's tokens, on the host, updated token by token."""

from array import array
from collections.abc import Sequence

from strowger_gateway.local_engine.sampling.sampling_params import RowParams


class TokenCounts:
    """The distinct tokens of one answer, in order of appearance, and how often it wrote each.

    ids: distinct tokens, int64. counts: their occurrences in the output, float32; 0 for tokens of
    the prompt only.
    """

    def __init__(self, prompt: Sequence[int], output: Sequence[int]) -> None:
        self.ids = array("q", dict.fromkeys(prompt))
        self.counts = array("f", bytes(4 * len(self.ids)))
        self._slots = {token: slot for slot, token in enumerate(self.ids)}
        for token in output:
            self.append(token)

    def append(self, token: int) -> int:
        """Count `token` and return its place in `ids`."""
        slot = self._slots.setdefault(token, len(self.ids))
        if slot == len(self.ids):
            self.ids.append(token)
            self.counts.append(0.0)
        self.counts[slot] += 1
        return slot

    def fork(self) -> "TokenCounts":
        twin = TokenCounts((), ())
        twin.ids, twin.counts = self.ids[:], self.counts[:]
        twin._slots = dict(self._slots)
        return twin


class Continuations:
    """Maps prefixes to the tokens that followed them.

    width: the longest prefix. follow(prefix, token): record that `token` follows `prefix`.
    """

    def __init__(self) -> None:
        self._after: dict[int, dict[tuple[int, ...], list[int]]] = {}
        self.width = 0

    def follow(self, prefix: tuple[int, ...], token: int) -> None:
        self.width = max(self.width, len(prefix))
        self._after.setdefault(len(prefix), {}).setdefault(prefix, []).append(token)

    def of(self, tail: Sequence[int]) -> list[int]:
        """Return the tokens that follow any suffix of `tail`; may contain duplicates."""
        found: list[int] = []
        for length, after in self._after.items():
            if length <= len(tail):
                found.extend(after.get(tuple(tail[len(tail) - length :]), ()))
        return found

    def fork(self) -> "Continuations":
        twin = Continuations()
        twin.width = self.width
        twin._after = {
            length: {prefix: list(tokens) for prefix, tokens in after.items()}
            for length, after in self._after.items()
        }
        return twin


class History:
    """One answer's memory: token counts, n-grams, partial bad words, and the decayed top_p.

    It lives as long as the answer, across batches; `SamplingRows.advance` appends the tokens.
    Use `new_history`, which returns `None` for an answer that needs no memory.
    """

    def __init__(
        self, params: RowParams, tokens: Sequence[int], prompt: int, vocabulary: int
    ) -> None:
        self._params = params
        self._vocabulary = vocabulary
        real = [token for token in tokens[:prompt] if token < vocabulary]
        self.counts = _counts(params, real, tokens[prompt:])
        self._words = _words(params)
        self._ngrams = Continuations() if params.no_repeat_ngram_size > 0 else None
        self._keep = max(self._words.width if self._words else 0, params.no_repeat_ngram_size, 1)
        self._tail: list[int] = []
        self.top_p = params.top_p
        if self._words is not None or self._ngrams is not None:
            for token in tokens[:prompt]:
                self._note(token)
        for token in tokens[prompt:]:
            self._note(token)
            self._decay(token)

    def append(self, token: int) -> int:
        """Append `token`. Return its place in `counts.ids`, or -1 without counts."""
        self._note(token)
        self._decay(token)
        return -1 if self.counts is None else self.counts.append(token)

    def banned(self) -> list[int]:
        """Return tokens that must not come next: they would end a bad word or repeat an n-gram."""
        words = [] if self._words is None else self._words.of(self._tail)
        if self._ngrams is None:
            return words
        return words + [token for token in self._ngrams.of(self._tail) if token < self._vocabulary]

    def fork(self) -> "History":
        """Return an independent copy for another answer that continues from here."""
        twin = History(self._params, (), 0, self._vocabulary)
        twin.counts = None if self.counts is None else self.counts.fork()
        twin._ngrams = None if self._ngrams is None else self._ngrams.fork()
        twin._tail = list(self._tail)
        twin.top_p = self.top_p
        return twin

    def _note(self, token: int) -> None:
        if self._ngrams is not None:
            size = self._params.no_repeat_ngram_size - 1
            if len(self._tail) >= size:
                self._ngrams.follow(tuple(self._tail[len(self._tail) - size :]), token)
        self._tail.append(token)
        if len(self._tail) > 2 * self._keep:
            del self._tail[: -self._keep]

    def _decay(self, token: int) -> None:
        decay = self._params.decay
        if decay is None:
            return
        if token == decay.reset_id:
            self.top_p = self._params.top_p
        else:
            self.top_p = max(self.top_p * decay.factor, decay.floor)


def new_history(
    params: RowParams, tokens: Sequence[int], prompt: int, *, vocabulary: int = 1 << 31
) -> History | None:
    """Return the memory of an answer, or `None` if `params` do not need one.

    tokens: prompt and output so far. prompt: number of prompt tokens.
    vocabulary: prompt ids from here on are rows of a prompt table, not tokens; pass it if the
    prompt may have such ids.
    """
    return History(params, tokens, prompt, vocabulary) if needs_history(params) else None


def needs_history(params: RowParams) -> bool:
    """True if the next token's logits or filters depend on the tokens before it."""
    return (
        params.repetition_penalty != 1
        or params.presence_penalty != 0
        or params.frequency_penalty != 0
        or params.no_repeat_ngram_size > 0
        or params.decay is not None
        or any(len(word) > 1 for word in params.bad_words)
    )


def _counts(params: RowParams, prompt: Sequence[int], output: Sequence[int]) -> TokenCounts | None:
    """Return the counts; only repetition_penalty includes the prompt."""
    if params.repetition_penalty != 1:
        return TokenCounts(prompt, output)
    if params.presence_penalty != 0 or params.frequency_penalty != 0:
        return TokenCounts((), output)
    return None


def _words(params: RowParams) -> Continuations | None:
    """Return bad words of several tokens; single-token ones are banned permanently."""
    long = [word for word in params.bad_words if len(word) > 1]
    if not long:
        return None
    words = Continuations()
    for word in long:
        words.follow(word[:-1], word[-1])
    return words
