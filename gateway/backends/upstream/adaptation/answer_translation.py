"""Translate answers: text to tokens, and tokens to text."""

from collections.abc import Sequence

import msgspec

from strowger_gateway.gateway.backends.upstream.adaptation.stream_tokenizer import StreamTokenizer
from strowger_gateway.gateway.backends.upstream.adaptation.tokenizer import TextTokenizer
from strowger_gateway.gateway.backends.upstream.own_limits import untranslatable
from strowger_gateway.schemas.events import Event, Finished, TextDelta, TokenLogprob, Tokens, Usage


class TextToTokens:
    """Turn a text answer's events into those of a token answer; times by the caller's clock."""

    def __init__(
        self,
        tokenizer: TextTokenizer,
        prompt: Sequence[int],
        upstream: str,
        started: float,
        *,
        whole: bool,
    ) -> None:
        """prompt: the request's tokens. started: start of the request, seconds.

        whole: the answer is not streamed, so its tokens do not need one event each.
        """
        self._tokenizer = tokenizer
        self._prompt = prompt
        self._upstream = upstream
        self._started = started
        self._as_whole = whole
        self._choices: dict[int, _Written] = {}
        self._counted = False

    def turn(self, batch: Sequence[Event], now: float) -> list[Event]:
        """now: arrival of the batch, seconds. Raises UpstreamFailed for text without tokens."""
        events: list[Event] = []
        for event in batch:
            match event:
                case TextDelta():
                    events += self._choice(event.index).feed(event, now)
                case Finished():
                    events += [*self._choice(event.index).close(now), event]
                case Usage():
                    self._counted = True
                    events.append(self._whole(event))
                case _:
                    events.append(event)
        return events

    def close(self) -> list[Event]:
        """Return usage counted here, if the backend did not count."""
        return [] if self._counted else [self._whole(Usage())]

    def _whole(self, usage: Usage) -> Usage:
        """Fill in the prompt's length, and the answer's as far as the tokens are the model's."""
        generated = sum(choice.count for choice in self._choices.values())
        prompt = usage.prompt_tokens if usage.prompt_tokens is not None else len(self._prompt)
        counted = usage.completion_tokens
        completion = counted if counted is not None else generated
        return msgspec.structs.replace(
            usage,
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=prompt + completion,
        )

    def _choice(self, index: int) -> "_Written":
        if index not in self._choices:
            speller = StreamTokenizer(self._tokenizer, self._prompt, self._upstream)
            self._choices[index] = _Written(
                index,
                speller,
                self._tokenizer,
                self._upstream,
                self._started,
                whole=self._as_whole,
            )
        return self._choices[index]


class _Written:
    """One choice; count: its tokens so far."""

    def __init__(
        self,
        index: int,
        speller: StreamTokenizer,
        tokenizer: TextTokenizer,
        upstream: str,
        started: float,
        *,
        whole: bool,
    ) -> None:
        self._index = index
        self._speller = speller
        self._tokenizer = tokenizer
        self._upstream = upstream
        self._last = started
        self._whole = whole
        self.count = 0

    def feed(self, delta: TextDelta, now: float) -> list[Event]:
        if not delta.logprobs:
            return self._spelt(delta.text, now, over=False)
        scored = tuple(self._identified(one) for one in delta.logprobs)
        ids = tuple(one.id for one in scored)
        before = self._spelt("", now, over=True)
        return [*before, self._tokens(ids, delta.text, now, scored)]

    def close(self, now: float) -> list[Event]:
        return self._spelt("", now, over=True)

    def _spelt(self, text: str, now: float, *, over: bool) -> list[Event]:
        if self._whole:
            ids, text = self._speller.feed_whole(text, over=over)
            return [self._tokens(ids, text, now)] if ids else []
        pieces = self._speller.feed(text, over=over)
        return [self._tokens((id,), piece, now) for id, piece in pieces]

    def _tokens(
        self,
        ids: tuple[int, ...],
        text: str,
        now: float,
        logprobs: tuple[TokenLogprob, ...] = (),
    ) -> Tokens:
        elapsed, self._last = (now - self._last) * 1000.0, now
        self.count += len(ids)
        return Tokens(ids=ids, text=text, index=self._index, logprobs=logprobs, elapsed_ms=elapsed)

    def _identified(self, one: TokenLogprob) -> TokenLogprob:
        """Add its id, and the ids of its alternatives as far as they are known."""
        id = one.id if one.id >= 0 else self._tokenizer.id_of(one.token, one.bytes)
        if id is None:
            raise untranslatable(
                f"log probabilities contain token {one.token!r}, which is not in the tokenizer",
                self._upstream,
            )
        top = tuple(self._guessed(other) for other in one.top)
        return msgspec.structs.replace(one, id=id, top=top)

    def _guessed(self, one: TokenLogprob) -> TokenLogprob:
        if one.id >= 0:
            return one
        id = self._tokenizer.id_of(one.token, one.bytes)
        return one if id is None else msgspec.structs.replace(one, id=id)


class TokensToText:
    """Turn the events of a token answer into those of a text answer."""

    def __init__(self, prompt: Sequence[int]) -> None:
        self._prompt = len(prompt)

    def turn(self, batch: Sequence[Event]) -> list[Event]:
        events: list[Event] = []
        for event in batch:
            match event:
                case Tokens(text=text, index=index, logprobs=logprobs):
                    if text or logprobs:
                        events.append(TextDelta(text=text, index=index, logprobs=logprobs))
                case Usage(prompt_tokens=None):
                    events.append(self._counted(event))
                case _:
                    events.append(event)
        return events

    def _counted(self, usage: Usage) -> Usage:
        total = None
        if usage.completion_tokens is not None:
            total = self._prompt + usage.completion_tokens
        return msgspec.structs.replace(usage, prompt_tokens=self._prompt, total_tokens=total)
