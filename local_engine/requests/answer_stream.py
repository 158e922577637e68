"""Stream one answer: turn new tokens into text and log probabilities, and finish the answer."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import msgspec
from msgspec import Struct

from strowger_gateway.local_engine.execution.jobs import Delta, Outcome
from strowger_gateway.local_engine.execution.step_sampler import SampledToken
from strowger_gateway.local_engine.requests.output_parser import OutputParser
from strowger_gateway.local_engine.requests.request_reader import PreparedRequest
from strowger_gateway.local_engine.scheduling.sequence import Finish
from strowger_gateway.local_engine.text.detokenizer import Detokenizer
from strowger_gateway.local_engine.text.stop_strings import StopStrings
from strowger_gateway.local_engine.text.text_offsets import offsets
from strowger_gateway.local_engine.text.tokenizer import Tokenizer
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    FinishReason,
    TextDelta,
    TokenLogprob,
    Tokens,
)

REASON: dict[Finish, Literal["stop", "length"]] = {
    "eos_token": "stop",
    "stop_sequence": "stop",
    "length": "length",
}


UINT64 = (1 << 64) - 1


class TokenNames:
    """Text and bytes of tokens for log probabilities, cached; one object per model."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        @lru_cache(maxsize=1 << 16)
        def name(token: int) -> tuple[str, tuple[int, ...] | None]:
            raw = tokenizer.token_bytes(token)
            text = raw.decode(errors="replace")
            if token in tokenizer.specials:
                return text, ()
            return text, None if "\ufffd" not in text else tuple(raw)

        self._name = name
        self._tokenizer = tokenizer

    def offsets(self, text: str, tokens: Sequence[int]) -> list[int]:
        """Return the position in `text` of each token of a prompt; see
        `local_engine/text/text_offsets.py`."""
        return offsets(
            text,
            [self._tokenizer.token_bytes(token) for token in tokens],
            [token in self._tokenizer.specials for token in tokens],
        )

    def unscored(self, token: int, offset: int) -> TokenLogprob:
        text, raw = self._name(token)
        return TokenLogprob(token=text, logprob=None, id=token, bytes=raw, offset=offset)

    def logprobs(self, drawn: SampledToken, offset: int) -> tuple[TokenLogprob, ...]:
        """Return one entry, or none where the token was drawn without a log probability.

        offset: of the token in its choice's text, in characters.
        """
        if drawn.logprob is None:
            return ()
        top = tuple(self._one(token, logprob) for token, logprob in drawn.top)
        return (self._one(drawn.token, drawn.logprob, top, offset),)

    def _one(
        self,
        token: int,
        logprob: float,
        top: tuple[TokenLogprob, ...] = (),
        offset: int | None = None,
    ) -> TokenLogprob:
        text, raw = self._name(token)
        return TokenLogprob(
            token=text, logprob=logprob, id=token, bytes=raw, top=top, offset=offset
        )


class _PendingToken(Struct, frozen=True, kw_only=True):
    """A token whose text is not sent yet: characters start … end of the answer."""

    token: int
    start: int
    end: int
    logprobs: tuple[TokenLogprob, ...]


class AnswerStream:
    """Turns the deltas of one sequence into the events of one choice.

    count: tokens drawn, the end token included. reasoned: those inside the reasoning.
    ended: the choice's `Finished` event was returned.
    Text and log probabilities are held back while a stop string may have begun. The text of an end
    token, a client's stop token or a stop string is never sent. A text answer still has a log
    probability for each of these tokens, because `count` includes them; a token answer has the ids
    and log probabilities of all tokens except those inside a stop string.
    """

    def __init__(
        self,
        request: PreparedRequest,
        index: int,
        prompt: int,
        *,
        seed: int,
        tokenizer: Tokenizer,
        names: TokenNames,
    ) -> None:
        """index: of the choice. prompt: index of its prompt in `request`. seed: of this choice."""
        self._request = request
        self.index = index
        self._seed = seed
        self._tokenizer = tokenizer
        self._names = names
        output_format = request.output_format
        self._parser = None if output_format is None else OutputParser(output_format, index)
        self._unshown_logprobs: tuple[TokenLogprob, ...] = ()
        self._in_text = True
        self._prompt = request.prompts[prompt]
        self._echoed = len(request.echoes[prompt])
        self._text = Detokenizer(
            tokenizer, self._prompt, {} if output_format is None else output_format.literals
        )
        self._stops = StopStrings(request.strings)
        self._pending: list[_PendingToken] = []
        self._seen = self._shown = 0
        self._last = 0.0
        self.count = 0
        self.reasoned = 0
        self.cum_logprob = 0.0
        self.ended = False

    @property
    def score(self) -> float:
        """Mean log probability per token; best_of ranks answers by it."""
        return self.cum_logprob / max(self.count, 1)

    def begin(self, now: float, echo: str) -> list[Event]:
        self._last = now
        later = self._request.prompt_logprobs
        return [TextDelta(text=echo, index=self.index)] if echo and not later else []

    def echo(self, text: str, drawn: Sequence[SampledToken]) -> list[Event]:
        """Return the prompt with its log probabilities; its first token has none."""
        first, *places = self._names.offsets(text, self._prompt)
        scored = [self._names.unscored(self._prompt[0], first)]
        for token, place in zip(drawn, places, strict=True):
            scored += self._names.logprobs(token, place)
        return [TextDelta(text=text, index=self.index, logprobs=tuple(scored))]

    def replay(self, tokens: Sequence[int]) -> None:
        """Take the tokens that the answer has already, whose events were sent elsewhere."""
        for token in tokens:
            self._take(SampledToken(token=token), None, (), self._last)

    def feed(self, delta: Delta, now: float) -> list[Event]:
        """Return the events of a delta that is neither `expired` nor `failed`. now: loop time."""
        events: list[Event] = []
        for place, drawn in enumerate(delta.drawn):
            last = place == len(delta.drawn) - 1
            events += self._take(drawn, delta.outcome if last else None, delta.match, now)
            if self.ended:
                break
        return events

    def _take(
        self, drawn: SampledToken, outcome: Outcome | None, match: tuple[int, ...], now: float
    ) -> list[Event]:
        if not self._request.max_new:
            return self._end("length", None)
        self.count += 1
        self.reasoned += self._parser is not None and self._parser.reasoning
        self.cum_logprob += drawn.logprob or 0.0
        silent = outcome == "eos_token" or (outcome is not None and len(match) == 1)
        piece = "" if silent else self._text.feed(drawn.token)
        offset = self._echoed + self._seen
        pending = _PendingToken(
            token=drawn.token,
            start=self._seen,
            end=self._seen + len(piece),
            logprobs=self._names.logprobs(drawn, offset) if self._request.logprobs else (),
        )
        self._seen = pending.end
        self._pending.append(pending)
        match outcome:
            case None:
                return self._flow(piece, now)
            case "eos_token" | "stop_sequence" | "length" as finish:
                return self._finish(piece, finish, match, now)
            case "expired" | "failed":
                raise ValueError(f"a delta with outcome {outcome} must not have tokens")

    def expire(self, now: float) -> list[Event]:
        """End the answer at its deadline with the text so far."""
        return self._finish("", "length", (), now)

    def _flow(self, piece: str, now: float) -> list[Event]:
        if self.count <= self._request.params.min_tokens:
            return self._show(piece, now)
        cut = self._stops.feed(piece)
        if cut.match is None:
            return self._show(cut.text, now)
        return self._matched(cut.text, cut.match, now)

    def _finish(
        self, piece: str, finish: Finish, match: tuple[int, ...], now: float
    ) -> list[Event]:
        rest = self._text.close()
        self._seen += len(rest)
        cut = self._stops.feed(piece + rest)
        if cut.match is not None:
            return self._matched(cut.text, cut.match, now)
        events = self._show(cut.text + self._stops.close(), now, last=True)
        found = match[0] if len(match) == 1 else self._tokenizer.decode(list(match)) or None
        return [*events, *self._end(finish, found)]

    def _matched(self, text: str, match: str, now: float) -> list[Event]:
        shown = self._shown + len(text)
        if self._request.as_tokens:
            self._pending = [
                pending
                for pending in self._pending
                if pending.start < shown or pending.end <= shown
            ]
        else:
            self._pending = [_within(pending, self._echoed + shown) for pending in self._pending]
        return [*self._show(text, now, last=True), *self._end("stop_sequence", match)]

    def _show(self, text: str, now: float, *, last: bool = False) -> list[Event]:
        """Return the events for everything up to the end of `text`, and for its tokens."""
        self._shown += len(text)
        if not text and not last and not self._request.as_tokens:
            return []
        ready = [pending for pending in self._pending if last or pending.end <= self._shown]
        self._pending = self._pending[len(ready) :]
        logprobs = tuple(one for pending in ready for one in pending.logprobs)
        if not ready and not text:
            return []
        if self._parser is not None:
            return self._with_logprobs(self._parser.feed(text), logprobs)
        if not self._request.as_tokens:
            if not text and not logprobs:
                return []
            return [TextDelta(text=text, index=self.index, logprobs=logprobs)]
        elapsed, self._last = max(now - self._last, 0.0) * 1000.0, now
        return [
            Tokens(
                ids=tuple(pending.token for pending in ready),
                text=text,
                index=self.index,
                logprobs=logprobs,
                elapsed_ms=elapsed,
            )
        ]

    def _with_logprobs(
        self, events: list[Event], logprobs: tuple[TokenLogprob, ...]
    ) -> list[Event]:
        """Attach log probabilities to the next text event; other events discard them."""
        self._unshown_logprobs += logprobs
        for place, event in enumerate(events):
            self._in_text = isinstance(event, TextDelta)
            if isinstance(event, TextDelta) and self._unshown_logprobs:
                events[place] = msgspec.structs.replace(event, logprobs=self._unshown_logprobs)
            self._unshown_logprobs = ()
        return events

    def _flush_parser(self, parser: OutputParser, *, cut: bool) -> list[Event]:
        """Return the rest of the answer and the log probability of the token that ends its text.

        cut: see OutputParser.close.
        """
        events = self._with_logprobs(parser.close(cut=cut), ())
        if self._unshown_logprobs and self._in_text:
            events.append(TextDelta(text="", index=self.index, logprobs=self._unshown_logprobs))
        return events

    def _end(self, finish: Finish, match: str | int | None) -> list[Event]:
        self.ended = True
        suffix = self._request.suffix
        added: list[Event] = [TextDelta(text=suffix, index=self.index)] if suffix else []
        reason: FinishReason = REASON[finish]
        if self._parser is not None:
            added = self._flush_parser(self._parser, cut=finish != "eos_token")
            if self._parser.calls and reason == "stop":
                reason = "tool_calls"
        return [
            *added,
            Finished(
                reason=reason,
                index=self.index,
                native=finish,
                stop_match=match,
                seed=self._seed & UINT64,
                cum_logprob=self.cum_logprob if self._request.logprobs else None,
            ),
        ]


def _within(pending: _PendingToken, end: int) -> _PendingToken:
    """Return the token with its offsets limited to the end of the choice's text."""
    inside = tuple(
        one if one.offset is None or one.offset <= end else msgspec.structs.replace(one, offset=end)
        for one in pending.logprobs
    )
    return msgspec.structs.replace(pending, logprobs=inside)
