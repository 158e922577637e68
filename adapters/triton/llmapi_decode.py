"""Decodes answers of Triton's `llmapi` model to events.

Every event of a stream has all text so far; the reasons are "None" until the last event.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.errors import error_inside, unreadable
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.adapters.triton.ensemble_decode import INFERRED
from strowger_gateway.schemas.errors import UpstreamBroken, UpstreamFailed
from strowger_gateway.schemas.events import Event, Finished, FinishReason, Started, TextDelta

NONE = "None"

FINISH: Mapping[str, FinishReason] = {"stop": "stop", "length": "length"}
"""Finish reasons -> ours. The others, `timeout` and `cancelled`, mean that the server aborted."""

BROKEN = "\ufffd"
"""An unfinished character; the next event has it complete."""


class LlmApiFrame(Struct, frozen=True, kw_only=True):
    """One event, or a complete answer."""

    model_name: str = ""
    text_output: str | None = None
    finish_reason: str | None = None
    stop_reason: str | None = None
    error: Raw = NULL


_read = msgspec.json.Decoder(LlmApiFrame).decode


class LlmApiDecoder:
    """Decodes one answer, complete or streamed."""

    def __init__(self, endpoint: Endpoint, *, stream: bool) -> None:
        self._endpoint = endpoint
        self._stream = stream
        self._shown = ""
        self._started = False
        self._finished = False

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        """See Decoder."""
        try:
            answer = _read(data)
        except UNREADABLE as exc:
            raise unreadable(self._endpoint, data) from exc
        if answer.error != NULL:
            raise error_inside(self._endpoint, data)
        if answer.text_output is None:
            raise self._broken("the answer has no text_output")
        events: list[Event] = []
        if not self._started:
            self._started = True
            events.append(Started(model=answer.model_name))
        ended = answer.finish_reason not in (None, NONE) and not self._finished
        whole = ended or not self._stream
        text = answer.text_output if whole else answer.text_output.rstrip(BROKEN)
        piece = text[len(self._shown) :]
        self._shown += piece
        if piece or (whole and not self._shown):
            events.append(TextDelta(text=piece))
        if ended:
            events.append(self._end(answer))
        return events

    def close(self) -> Sequence[Event]:
        """Raises UpstreamBroken if no event of a stream had a finish reason."""
        if self._finished:
            return ()
        if self._stream or not self._started:
            raise self._broken("stream ended early")
        return (Finished(reason="stop", native=INFERRED),)

    def _end(self, answer: LlmApiFrame) -> Finished:
        word = answer.finish_reason or NONE
        if word not in FINISH:
            raise UpstreamFailed(f"the answer ended with {word!r}", upstream=self._endpoint.name)
        self._finished = True
        found = None if answer.stop_reason in (None, NONE) else answer.stop_reason
        return Finished(reason=FINISH[word], stop_match=found)

    def _broken(self, problem: str) -> UpstreamBroken:
        return UpstreamBroken(problem, upstream=self._endpoint.name)
