"""Answers of Triton's text models as events: text, an inferred reason to end, and counts.

A stream has no end mark. Where its body ends in order it is whole; that a body has not ended in
order is for the transport (chunked framing) and the frame parser to notice.
"""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw, Struct, UnsetType

from adapters.base import Endpoint
from adapters.decoder_limits import CHOICES, check_room
from adapters.errors import error_inside
from adapters.framing import UnmarkedSSEParser
from adapters.openai.wire import NULL, UNREADABLE
from adapters.triton.cumulative_text import CumulativeText
from adapters.triton.sampling import answers, beams, bound
from adapters.triton.stop_strings import StopStrings
from schemas.errors import UpstreamBroken
from schemas.events import Event, Finished, Started, TextDelta, Usage
from schemas.requests import CompletionRequest

INFERRED = "inferred"
"""`Finished.native` where the server did not say why the answer ended."""

PIECES_ONLY = frozenset({"ensemble"})
"""Models that never repeat the text so far."""


class EnsembleFrame(Struct, frozen=True, kw_only=True):
    """One event, or a whole answer. A tensor of one item comes as a scalar."""

    model_name: str = ""
    text_output: str | list[str] | None = None
    sequence_index: int = 0
    num_input_tokens: int | None = None
    num_output_tokens: int | None = None
    error: Raw = NULL


_read = msgspec.json.Decoder(EnsembleFrame).decode


class _Sequence:
    """What is remembered of one answer. tokens: `None` where the server does not count."""

    def __init__(self, stops: Sequence[str], *, pieces: bool) -> None:
        self.text = CumulativeText(pieces=pieces)
        self.stops = StopStrings(stops)
        self.tokens: int | None = None
        self.shown = False
        self.finished = False


class TextDecoder:
    """Reads one answer, whole or streamed: an SSE body may come as one piece, too."""

    def __init__(self, endpoint: Endpoint, request: CompletionRequest) -> None:
        sampling = request.sampling
        self._endpoint = endpoint
        self._answers = answers(sampling)
        self._beams = beams(sampling)
        self._stops = () if isinstance(sampling.stop, UnsetType) else sampling.stop
        self._bound = bound(request)
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
        """Raises UpstreamBroken when fewer answers came than were asked for."""
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
            head = data[:80].decode(errors="replace")
            raise self._broken(f"cannot read the answer: {head}") from exc
        if answer.error != NULL:
            raise error_inside(self._endpoint, data)
        if answer.text_output is None:
            raise self._broken("an answer without text_output")
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
        """Tokens of each event; with beams, those of all of them together."""
        if answer.num_input_tokens is not None:
            self._prompt = answer.num_input_tokens
        if answer.num_output_tokens is not None and answer.sequence_index < self._answers:
            sequence = self._sequence(answer.sequence_index, answer)
            sequence.tokens = (sequence.tokens or 0) + answer.num_output_tokens

    def _sequence(self, index: int, answer: EnsembleFrame) -> _Sequence:
        found = self._sequences.get(index)
        if found is None:
            most = max(self._answers, CHOICES)
            check_room(self._sequences, most, "sequences", self._endpoint.name)
            pieces = answer.model_name in PIECES_ONLY
            found = self._sequences[index] = _Sequence(self._stops, pieces=pieces)
        return found

    def _show(self, index: int, sequence: _Sequence, text: str) -> Iterator[Event]:
        text = sequence.stops.feed(text)
        if text:
            sequence.shown = True
            yield TextDelta(text=text, index=index)
        if sequence.stops.found:
            yield from self._end(index, sequence)

    def _end(self, index: int, sequence: _Sequence) -> Iterator[Event]:
        """The rest of the text and the reason, found (a stop string) or inferred (a count)."""
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
        """Their tokens are counted together, so one that ended early makes none of them full."""
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
