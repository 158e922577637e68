"""Decodes answers of Triton's text models to events: text, an inferred finish reason, and counts.

A stream has no end mark. It is complete if its body ends properly, which the transport (chunked
framing) and the frame parser check.
"""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw, Struct, UnsetType

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.decoder_limits import CHOICES, overfull
from strowger_gateway.adapters.errors import error_inside, unreadable
from strowger_gateway.adapters.framing import UnmarkedSSEParser
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.adapters.triton.cumulative_text import CumulativeText
from strowger_gateway.adapters.triton.sampling import answers, beams, token_limit
from strowger_gateway.adapters.triton.stop_strings import StopStrings
from strowger_gateway.schemas.errors import UpstreamBroken
from strowger_gateway.schemas.events import Event, Finished, Started, TextDelta, Usage
from strowger_gateway.schemas.requests import CompletionRequest

INFERRED = "inferred"
"""`Finished.native` if the server sent no finish reason."""

DELTAS_ONLY = frozenset({"ensemble"})
"""Models that never send cumulative text."""


class EnsembleFrame(Struct, frozen=True, kw_only=True):
    """One event, or a complete answer. A tensor of one item comes as a scalar."""

    model_name: str = ""
    text_output: str | list[str] | None = None
    sequence_index: int = 0
    num_input_tokens: int | None = None
    num_output_tokens: int | None = None
    error: Raw = NULL


_read = msgspec.json.Decoder(EnsembleFrame).decode


class _Sequence:
    """The state of one answer. tokens: `None` if the server does not count."""

    def __init__(self, stops: Sequence[str], *, deltas: bool) -> None:
        self.text = CumulativeText(deltas=deltas)
        self.stops = StopStrings(stops)
        self.tokens: int | None = None
        self.shown = False
        self.finished = False


class TextDecoder:
    """Decodes one answer, complete or streamed; an SSE body may also come as one piece."""

    def __init__(self, endpoint: Endpoint, request: CompletionRequest) -> None:
        sampling = request.sampling
        self._endpoint = endpoint
        self._answers = answers(sampling)
        self._beams = beams(sampling)
        self._stops = () if isinstance(sampling.stop, UnsetType) else sampling.stop
        self._bound = token_limit(request)
        self._sequences: dict[int, _Sequence] = {}
        self._prompt: int | None = None
        self._started = False

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        """See Decoder."""
        if data.startswith(b"data:"):
            parser = UnmarkedSSEParser(self._endpoint.name)
            frames = [*parser.feed(data), *parser.close()]
            return [one for _, frame in frames for one in self._events(frame)]
        return list(self._events(data))

    def close(self) -> Sequence[Event]:
        """Raises UpstreamBroken if fewer answers arrived than were requested."""
        if len(self._sequences) < self._answers:
            raise self._broken(f"{len(self._sequences)} of {self._answers} answers arrived")
        events: list[Event] = []
        for index, sequence in self._sequences.items():
            if not sequence.finished:
                events += self._show(index, sequence, sequence.text.close())
            if not sequence.finished:
                events += self._end(index, sequence)
        counts = [sequence.tokens for sequence in self._sequences.values()]
        events.append(self._usage([one for one in counts if one is not None]))
        return events

    def _events(self, data: bytes) -> Iterator[Event]:
        try:
            answer = _read(data)
        except UNREADABLE as exc:
            raise unreadable(self._endpoint, data) from exc
        if answer.error != NULL:
            raise error_inside(self._endpoint, data)
        if answer.text_output is None:
            raise self._broken("the answer has no text_output")
        if not self._started:
            self._started = True
            yield Started(model=answer.model_name)
        self._count(answer)
        given = answer.text_output
        texts = [given] if isinstance(given, str) else given
        for beam, text in enumerate(texts):
            index = answer.sequence_index + beam
            if index < self._answers:
                sequence = self._sequence(index, answer)
                if not sequence.finished:
                    yield from self._show(index, sequence, sequence.text.add(text))

    def _count(self, answer: EnsembleFrame) -> None:
        """Return the number of tokens of each event, with beams that of all beams together."""
        if answer.num_input_tokens is not None:
            self._prompt = answer.num_input_tokens
        if answer.num_output_tokens is not None and answer.sequence_index < self._answers:
            sequence = self._sequence(answer.sequence_index, answer)
            sequence.tokens = (sequence.tokens or 0) + answer.num_output_tokens

    def _sequence(self, index: int, answer: EnsembleFrame) -> _Sequence:
        found = self._sequences.get(index)
        if found is None:
            most = max(self._answers, CHOICES)
            if len(self._sequences) >= most:
                raise overfull(most, "sequences", self._endpoint.name)
            deltas = answer.model_name in DELTAS_ONLY
            found = self._sequences[index] = _Sequence(self._stops, deltas=deltas)
        return found

    def _show(self, index: int, sequence: _Sequence, text: str) -> Iterator[Event]:
        text = sequence.stops.feed(text)
        if text:
            sequence.shown = True
            yield TextDelta(text=text, index=index)
        if sequence.stops.found:
            yield from self._end(index, sequence)

    def _end(self, index: int, sequence: _Sequence) -> Iterator[Event]:
        """Emit the rest of the text and the reason, found (stop string) or inferred (count)."""
        sequence.finished = True
        rest = sequence.stops.close()
        if rest or not sequence.shown:
            yield TextDelta(text=rest, index=index)
        found = sequence.stops.found
        full = (
            sequence.tokens is not None and sequence.tokens >= self._bound
            if self._beams == 1
            else self._beams_are_full()
        )
        yield Finished(
            reason="length" if full and not found else "stop",
            index=index,
            native="" if found else INFERRED,
            stop_match=found or None,
        )

    def _beams_are_full(self) -> bool:
        """Return whether all beams are full; their tokens are counted together."""
        tokens = self._sequences[0].tokens
        return tokens is not None and tokens >= self._bound * self._answers

    def _usage(self, counts: Sequence[int]) -> Usage:
        completion = sum(counts) if counts else None
        known = self._prompt is not None and completion is not None
        return Usage(
            prompt_tokens=self._prompt,
            completion_tokens=completion,
            total_tokens=(self._prompt or 0) + (completion or 0) if known else None,
        )

    def _broken(self, problem: str) -> UpstreamBroken:
        return UpstreamBroken(problem, upstream=self._endpoint.name)
