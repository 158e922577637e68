"""Detect where an answer ends, for backends without stop strings, stop tokens or end tokens.

The rules are those of the local engine: the match of a stop string is not shown, nor are the
tokens inside it; a stop token is among the ids and its text is not shown; nothing ends an answer
before `min_tokens`.
"""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.backends.upstream.own_limits import untranslatable
from strowger_gateway.local_engine.text.stop_strings import StopStrings
from strowger_gateway.schemas.events import Event, Finished, TextDelta, TokenLogprob, Tokens


class StopRules(Struct, frozen=True, kw_only=True):
    """The conditions that end an answer.

    strings:    stop strings. tokens: single ids; words: sequences of ids.
    ends:       ids treated as the model's own end token.
    min_tokens: number of tokens generated before any rule applies.
    seed:       the seed to report, if the client sent one.
    """

    strings: tuple[str, ...] = ()
    tokens: frozenset[int] = frozenset()
    words: tuple[tuple[int, ...], ...] = ()
    ends: frozenset[int] = frozenset()
    min_tokens: int = 0
    seed: int | None = None


class _Held(Struct, frozen=True, kw_only=True):
    """Part of one event that is not shown yet: characters start … end of the answer."""

    start: int
    end: int
    ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]
    elapsed_ms: float


class _Match(Struct, frozen=True, kw_only=True):
    """place: index of the id that completes it, within its event. silent: its text is not shown."""

    place: int
    native: str
    found: str | int | None
    silent: bool


class StopDetector:
    """Pass on one choice's events up to where a rule ends it.

    ended: its Finished was emitted; cut: because of a rule.
    count: tokens passed on, if the backend returns ids.
    """

    def __init__(
        self,
        rules: StopRules,
        index: int,
        upstream: str,
        decode: Callable[[Sequence[int]], str] | None = None,
    ) -> None:
        """decode: ids to text, to name a sequence that matched."""
        self._rules = rules
        self._index = index
        self._upstream = upstream
        self._decode = decode
        self._strings = StopStrings(rules.strings)
        self._recent: tuple[int, ...] = ()
        self._held: list[_Held] = []
        self._seen = self._shown = 0
        self._as_tokens = False
        self._longest = max((len(word) for word in rules.words), default=0)
        self._generated = 0
        self.count = 0
        self.ended = self.cut = False

    def feed(self, event: TextDelta | Tokens) -> list[Event]:
        """Raise UpstreamFailed if a stop token's text cannot be separated from other tokens'."""
        if isinstance(event, TextDelta):
            self._hold((), event.text, event.logprobs, 0.0)
            return self._flow(event.text, None)
        self._as_tokens = True
        match = self._match(event.ids)
        if match is not None:
            event = self._cut(event, match)
        self._hold(event.ids, event.text, event.logprobs, event.elapsed_ms)
        return self._flow(event.text, match)

    def finish(self, event: Finished) -> list[Event]:
        """Emit what is held back: the backend ended the choice itself."""
        self.ended = True
        return [*self._show(self._strings.close(), last=True), event]

    def _flow(self, text: str, match: _Match | None) -> list[Event]:
        if self._as_tokens and self._generated <= self._rules.min_tokens:
            return self._show(text)
        cut = self._strings.feed(text)
        if cut.match is not None:
            shown = self._shown + len(cut.text)
            self._held = [one for one in self._held if one.start < shown or one.end <= shown]
            return [*self._show(cut.text, last=True), self._end("stop_sequence", cut.match)]
        if match is None:
            return self._show(cut.text)
        events = self._show(cut.text + self._strings.close(), last=True)
        return [*events, self._end(match.native, match.found)]

    def _match(self, ids: tuple[int, ...]) -> _Match | None:
        rules = self._rules
        for place, id in enumerate(ids):
            self._generated += 1
            if self._longest:
                self._recent = (*self._recent, id)[-self._longest :]
            if self._generated <= rules.min_tokens:
                continue
            if id in rules.ends:
                return _Match(place=place, native="eos_token", found=None, silent=True)
            if id in rules.tokens:
                return _Match(place=place, native="stop_sequence", found=id, silent=True)
            for word in rules.words:
                if self._recent[-len(word) :] == word:
                    return self._word(place, word)
        return None

    def _word(self, place: int, word: tuple[int, ...]) -> _Match:
        found: str | int | None = word[0]
        if len(word) > 1:
            found = self._decode(word) or None if self._decode else None
        return _Match(place=place, native="stop_sequence", found=found, silent=len(word) == 1)

    def _cut(self, event: Tokens, match: _Match) -> Tokens:
        """Return the event up to the id that ends the answer."""
        size = len(event.ids)
        alone, last = size == 1, match.place == size - 1
        if event.text and not (alone or (last and not match.silent)):
            raise untranslatable(
                f"token {event.ids[match.place]}, which ends the answer, came together with others"
                " whose text cannot be separated from it; configure the provider's tokenizer",
                self._upstream,
            )
        kept = match.place + 1
        aligned = len(event.logprobs) == size
        return msgspec.structs.replace(
            event,
            ids=event.ids[:kept],
            text="" if match.silent else event.text,
            logprobs=event.logprobs[:kept] if aligned else event.logprobs,
        )

    def _hold(
        self,
        ids: tuple[int, ...],
        text: str,
        logprobs: tuple[TokenLogprob, ...],
        elapsed_ms: float,
    ) -> None:
        start = self._seen
        self._seen += len(text)
        self._held.append(
            _Held(start=start, end=self._seen, ids=ids, logprobs=logprobs, elapsed_ms=elapsed_ms)
        )

    def _show(self, text: str, *, last: bool = False) -> list[Event]:
        """Emit everything up to the end of `text`, with its ids and log probabilities."""
        self._shown += len(text)
        ready = [one for one in self._held if last or one.end <= self._shown]
        self._held = self._held[len(ready) :]
        logprobs = tuple(entry for one in ready for entry in one.logprobs)
        ids = tuple(id for one in ready for id in one.ids)
        self.count += len(ids)
        if not (text or logprobs or ids):
            return []
        if not self._as_tokens:
            return [TextDelta(text=text, index=self._index, logprobs=logprobs)]
        elapsed = sum(one.elapsed_ms for one in ready)
        return [
            Tokens(ids=ids, text=text, index=self._index, logprobs=logprobs, elapsed_ms=elapsed)
        ]

    def _end(self, native: str, found: str | int | None) -> Finished:
        self.ended = self.cut = True
        return Finished(
            reason="stop",
            index=self._index,
            native=native,
            stop_match=found,
            seed=self._rules.seed,
        )
