"""Render MindIE's token answers, whole and streamed.

A stream has one frame per token. The last one is different: it has the whole text, and null for
its own. Only the end of the answer shows which token is the last, so one is always held back.
Times are those that came with the tokens; of tokens that arrived together the first has the
whole time and the others 0.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from strowger_gateway.gateway.surfaces.base import Headers
from strowger_gateway.gateway.surfaces.mindie.errors import error_body
from strowger_gateway.gateway.surfaces.sse import frame
from strowger_gateway.schemas.answers import Answer, Choice
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    Tokens,
    Usage,
)
from strowger_gateway.schemas.requests import TokenRequest

Word = Literal["eos_token", "stop_sequence", "length"]

WORDS: Final[dict[str, Word]] = {
    "eos_token": "eos_token",
    "stop_sequence": "stop_sequence",
    "length": "length",
}
REASONS: Final[dict[FinishReason, Word]] = {
    "stop": "eos_token",
    "length": "length",
    "tool_calls": "eos_token",
    "function_call": "eos_token",
    "content_filter": "stop_sequence",
}
"""For backends that do not return MindIE's finish reasons themselves."""

_encode = msgspec.json.Encoder().encode


class _Details(Struct, frozen=True, kw_only=True):
    """generated_tokens: null if not counted. seed: null if the backend does not return it."""

    finish_reason: Word
    generated_tokens: int | None
    generated_token_ids: list[int] | UnsetType = UNSET
    seed: int | None


class InferTokenAnswer(Struct, frozen=True, kw_only=True):
    """details: present if requested."""

    generated_text: str
    details: _Details | UnsetType = UNSET


class _Token(Struct, frozen=True, kw_only=True):
    """id: null for text without tokens."""

    id: int | None
    text: str | None


class _Step(Struct, frozen=True, kw_only=True):
    """Milliseconds; null for the phase that does not apply, or if the backend gives no times."""

    prefill_time: float | None
    decode_time: float | None
    token: _Token


class _LastStep(Struct, frozen=True, kw_only=True):
    prefill_time: float | None
    decode_time: float | None
    generated_text: str
    details: _Details | None
    token: _Token


class _Held(Struct, frozen=True, kw_only=True):
    """A token that may be the last. ms: since the previous token; `None` if unknown."""

    id: int | None
    text: str
    ms: float | None


class InferTokenRenderer:
    """Render one answer. Mutable state: what was streamed so far, and the token held back.

    Text without tokens is sent as it arrives, with the id null and without a time.
    """

    def __init__(self, request: TokenRequest) -> None:
        self._details = request.details
        self._seed = request.sampling.seed
        self._held: _Held | None = None
        self._begun = False
        self._texts: list[str] = []
        self._count = 0
        self._usage: Usage | None = None
        self._finished: Finished | None = None

    def headers(self, backend: str) -> Headers:
        return []

    def answer(self, answer: Answer) -> bytes:
        choice = next((one for one in answer.choices if one.index == 0), None)
        if choice is None or choice.finish is None:
            raise GatewayError("answer rendered before it was finished")
        text = choice.reasoning + (choice.text or choice.refusal or "")
        details = self._whole_details(choice, choice.finish, answer.usage)
        return _encode(InferTokenAnswer(generated_text=text, details=details))

    def events(self, batch: Sequence[Event]) -> bytes:
        out: list[bytes] = []
        for event in batch:
            match event:
                case Tokens(index=0):
                    self._tokens(event, out)
                case TextDelta(index=0) | ReasoningDelta(index=0) | RefusalDelta(index=0):
                    if event.text:
                        self._hold(_Held(id=None, text=event.text, ms=None), out)
                case Usage():
                    self._usage = event
                case Finished(index=0):
                    self._finished = event
                case _:
                    pass  # the dialect has no field for anything else, and no request asks for it
        return b"".join(out)

    def finish(self) -> bytes:
        finished = self._finished
        if finished is None:
            raise GatewayError("stream rendered to its end before it was finished")
        held = self._held or _Held(id=None, text="", ms=None)
        prefill, decode = self._times(held)
        details = None
        if self._details:
            details = _Details(
                finish_reason=_finish_word(finished),
                generated_tokens=_generated(self._usage, self._count, bool(self._texts)),
                seed=self._used_seed(finished),
            )
        step = _LastStep(
            prefill_time=prefill,
            decode_time=decode,
            generated_text="".join(self._texts),
            details=details,
            token=_Token(id=held.id, text=None),
        )
        return frame(_encode(step))

    def error(self, exc: GatewayError) -> bytes:
        """Send the token that was held back first: it was generated."""
        out: list[bytes] = []
        self._release(out)
        return b"".join([*out, frame(error_body(exc))])

    def _tokens(self, event: Tokens, out: list[bytes]) -> None:
        if not event.ids:
            self._join(event.text, out)
            return
        for place, token in enumerate(event.ids):
            first = place == 0
            text = event.text if first else ""
            self._hold(_Held(id=token, text=text, ms=event.elapsed_ms if first else 0.0), out)
        self._count += len(event.ids)

    def _join(self, text: str, out: list[bytes]) -> None:
        """Add text that completes with a token that has already arrived."""
        if not text:
            return
        held = self._held
        if held is None:
            self._hold(_Held(id=None, text=text, ms=None), out)
            return
        self._texts.append(text)
        self._held = _Held(id=held.id, text=held.text + text, ms=held.ms)

    def _hold(self, held: _Held, out: list[bytes]) -> None:
        self._release(out)
        self._held = held
        if held.text:
            self._texts.append(held.text)

    def _release(self, out: list[bytes]) -> None:
        held, self._held = self._held, None
        if held is None:
            return
        prefill, decode = self._times(held)
        token = _Token(id=held.id, text=held.text)
        out.append(frame(_encode(_Step(prefill_time=prefill, decode_time=decode, token=token))))

    def _times(self, held: _Held) -> tuple[float | None, float | None]:
        """Return prefill and decode time with microsecond precision: the first token is prefill."""
        if held.ms is None:
            return None, None
        ms = round(held.ms, 3)
        first, self._begun = not self._begun, True
        return (ms, None) if first else (None, ms)

    def _whole_details(
        self, choice: Choice, finish: Finished, usage: Usage | None
    ) -> _Details | UnsetType:
        if not self._details:
            return UNSET
        ids = choice.token_ids
        return _Details(
            finish_reason=_finish_word(finish),
            generated_tokens=_generated(usage, len(ids), bool(choice.text)),
            generated_token_ids=ids if ids or not choice.text else UNSET,
            seed=self._used_seed(finish),
        )

    def _used_seed(self, finish: Finished) -> int | None:
        if finish.seed is not None:
            return finish.seed
        return None if self._seed is UNSET else self._seed


def _finish_word(finish: Finished) -> Word:
    """Return MindIE's reason if the backend gave one; a stop string is not an end token."""
    own = WORDS.get(finish.native)
    if own is not None:
        return own
    if finish.reason == "stop" and isinstance(finish.stop_match, str):
        return "stop_sequence"
    return REASONS[finish.reason]


def _generated(usage: Usage | None, ids: int, text: bool) -> int | None:
    """Return the backend's count, else the number of ids; `None` for text without a count."""
    if usage is not None and usage.completion_tokens is not None:
        return usage.completion_tokens
    return ids if ids or not text else None
