"""Collects one answer of a raw-tensor model: tokens, their scores, and the finish reason.

The text of every token is "", because such a model has no text; the finish reason is inferred from
the last tokens and the length.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.errors import error_inside, unreadable
from strowger_gateway.adapters.triton.ensemble_decode import INFERRED
from strowger_gateway.adapters.triton.open_inference_protocol import error_of
from strowger_gateway.adapters.triton.sampling import answers, end_token, stop_words, token_limit
from strowger_gateway.schemas.errors import GatewayError, UpstreamBroken
from strowger_gateway.schemas.events import Event, Finished, Started, TokenLogprob, Tokens, Usage
from strowger_gateway.schemas.requests import TokenRequest


class Beam(Struct, frozen=True, kw_only=True):
    """New tokens of one choice, with their log probabilities if requested."""

    index: int
    ids: tuple[int, ...]
    logprobs: Sequence[float] = ()
    cumulative: float | None = None


class _Choice:
    """The state of one choice: the number of tokens, and the last ones."""

    __slots__ = ("count", "cumulative", "tail")

    def __init__(self) -> None:
        self.count = 0
        self.tail: tuple[int, ...] = ()
        self.cumulative: float | None = None


class TokenAnswer:
    """Collects the tokens of one answer, event by event, and infers the finish reason."""

    def __init__(self, endpoint: Endpoint, request: TokenRequest) -> None:
        sampling = request.sampling
        self._endpoint = endpoint
        self._request = request
        self._answers = answers(sampling)
        self._bound = token_limit(request)
        self.scored = sampling.logprobs is True
        self._stops = stop_words(sampling)
        self._end = end_token(sampling)
        self._keep = max((1, *map(len, self._stops)))
        self._choices: dict[int, _Choice] = {}
        self._started = False

    def close(self) -> Sequence[Event]:
        """Return the ends and the counts.

        Raises UpstreamBroken if fewer answers arrived than were requested.
        """
        if len(self._choices) < self._answers:
            raise self.broken(f"{len(self._choices)} of {self._answers} answers arrived")
        events: list[Event] = [
            self._finished(index, choice) for index, choice in sorted(self._choices.items())
        ]
        prompt = len(self._request.tokens)
        count = sum(choice.count for choice in self._choices.values())
        usage = Usage(prompt_tokens=prompt, completion_tokens=count, total_tokens=prompt + count)
        return [*events, usage]

    def begin(self, model: str) -> Iterator[Event]:
        """Emit `Started` once, before anything else."""
        if not self._started:
            self._started = True
            yield Started(model=model)

    def add(self, beam: Beam) -> Iterator[Event]:
        """Emit the tokens of a requested choice; the server may send more choices."""
        if not self.is_requested(beam.index):
            return
        choice = self._choices.setdefault(beam.index, _Choice())
        ids = self._without_prompt(beam.ids) if choice.count == 0 else beam.ids
        choice.count += len(ids)
        choice.tail = (*choice.tail, *ids)[-self._keep :]
        if beam.cumulative is not None:
            choice.cumulative = beam.cumulative
        if ids:
            yield Tokens(ids=ids, index=beam.index, logprobs=self._logprobs(ids, beam.logprobs))

    def _without_prompt(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        """Remove the prompt, which old servers always send first; the exceeded limit shows it."""
        prompt = self._request.tokens
        shown = len(ids) > self._bound and ids[: len(prompt)] == prompt
        return ids[len(prompt) :] if shown else ids

    def _logprobs(self, ids: tuple[int, ...], values: Sequence[float]) -> tuple[TokenLogprob, ...]:
        if not self.scored:
            return ()
        return tuple(
            TokenLogprob(token="", id=token, logprob=values[place] if place < len(values) else None)
            for place, token in enumerate(ids)
        )

    def _finished(self, index: int, choice: _Choice) -> Finished:
        last = choice.tail[-1:]
        words = [word for word in self._stops if word and choice.tail[-len(word) :] == word]
        stopped = bool(words) or (self._end is not None and last == (self._end,))
        full = choice.count >= self._bound
        alone = (self._end,) == last or any(len(word) == 1 for word in words)
        return Finished(
            reason="length" if full and not stopped else "stop",
            index=index,
            native="" if stopped else INFERRED,
            stop_match=last[0] if stopped and alone else None,
            cum_logprob=choice.cumulative,
        )

    def is_requested(self, index: int) -> bool:
        return index < self._answers

    def broken(self, problem: str) -> UpstreamBroken:
        return UpstreamBroken(problem, upstream=self._endpoint.name)

    def unreadable(self, data: bytes) -> GatewayError:
        """Return the error inside a 200, or UpstreamBroken for an unreadable answer."""
        if error_of(data) is not None:
            return error_inside(self._endpoint, data)
        return unreadable(self._endpoint, data)
