"""Decodes answers of MindIE's `/infer_token` and `/generate` to events, streamed or complete.

Only the last frame has `generated_text`, and there is no `[DONE]`. The text of the last frame's own
tokens may be only there, so the remainder of `generated_text` after all text that was sent is the
answer's end. The finish reason `stop_sequence` also occurs on aborted and failed answers.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.base import STRAY, Endpoint
from strowger_gateway.adapters.errors import error_inside
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.adapters.openai.decode import DONE
from strowger_gateway.schemas.errors import UpstreamBroken, UpstreamFailed
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    FinishReason,
    Started,
    TextDelta,
    TokenId,
    Tokens,
    Usage,
)
from strowger_gateway.schemas.requests import CompletionRequest, TokenRequest

FINISH: Mapping[str, FinishReason] = {
    "eos_token": "stop",
    "length": "length",
    "stop_sequence": "stop",
}
FAILED = frozenset({"invalid flag", "invalid finishreason", "error"})
"""Finish reasons of failed answers, in lower case."""

STOPPED = "stop_sequence"
"""Ambiguous: a failure, unless the request has stop strings and something was generated."""

CUMULATIVE = "fullTextEnabled must be false in the server's configuration"


class _Token(Struct, frozen=True, kw_only=True, gc=False):
    """id: one, or a list of them in newer versions. text: `None` in `/infer_token`'s last frame."""

    id: TokenId | tuple[TokenId, ...] | None = None
    text: str | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        if self.id is None:
            return ()
        return (self.id,) if isinstance(self.id, int) else self.id


class _Details(Struct, frozen=True, kw_only=True):
    """generated_token_ids: newer `/infer_token`; tokens: `/generate`; neither in a stream."""

    finish_reason: str | None = None
    generated_tokens: int | None = None
    generated_token_ids: tuple[TokenId, ...] | None = None
    tokens: tuple[_Token, ...] | None = None
    prompt_tokens: int | None = None
    seed: int | None = None

    @property
    def ids(self) -> tuple[int, ...] | None:
        """Return the ids; `None` from older servers, which do not send them."""
        if self.generated_token_ids is not None:
            return self.generated_token_ids
        if self.tokens is not None:
            return tuple(one for token in self.tokens for one in token.ids)
        return None


class _Frame(Struct, frozen=True, kw_only=True):
    """A frame of a stream, or a complete answer, which has no `token`. Times in milliseconds."""

    token: _Token | None = None
    generated_text: str | None = None
    details: _Details | None = None
    prefill_time: float | None = None
    decode_time: float | None = None
    error: Raw = NULL


_read = msgspec.json.Decoder(_Frame).decode


class MindIEDecoder:
    """Decodes one answer; its frames show whether it is streamed or complete."""

    def __init__(self, endpoint: Endpoint, request: CompletionRequest | TokenRequest) -> None:
        self._endpoint = endpoint
        self._upstream = endpoint.name
        self._tokens = isinstance(request, TokenRequest)
        self._prompt = len(request.tokens) if isinstance(request, TokenRequest) else None
        self._stops = bool(request.sampling.stop)
        self._started = False
        self.ended = False
        self._sent: list[str] = []
        self._count = 0

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        if event in (STRAY, "error"):
            raise error_inside(self._endpoint, data)
        if data == DONE or self.ended:
            return ()
        try:
            frame = _read(data)
        except UNREADABLE as exc:
            raise self._broken(f"cannot read a frame: {_head(data)}") from exc
        if frame.error != NULL:
            raise error_inside(self._endpoint, data)
        events: list[Event] = []
        if not self._started:
            self._started = True
            events.append(Started())
        if frame.generated_text is not None:
            self._end(frame, frame.generated_text, events)
        elif frame.token is not None:
            self._advance(frame, frame.token.ids, frame.token.text or "", events)
        else:
            raise self._broken(f"not a frame of an answer: {_head(data)}")
        return events

    def close(self) -> Sequence[Event]:
        if not self.ended:
            raise self._broken("stream ended early")
        return ()

    def _advance(self, frame: _Frame, ids: tuple[int, ...], text: str, events: list[Event]) -> None:
        self._count += len(ids)
        if text:
            self._sent.append(text)
        if self._tokens:
            elapsed = frame.prefill_time if frame.decode_time is None else frame.decode_time
            if ids or text:
                events.append(Tokens(ids=ids, text=text, elapsed_ms=elapsed or 0.0))
        elif text:
            events.append(TextDelta(text=text))

    def _end(self, frame: _Frame, whole: str, events: list[Event]) -> None:
        details = frame.details
        if details is None or details.finish_reason is None:
            raise self._broken("the answer has no finish reason")
        sent = "".join(self._sent)
        if not whole.startswith(sent):
            raise self._broken(f"generated_text does not start with the sent text; {CUMULATIVE}")
        ids = frame.token.ids if frame.token is not None else details.ids
        if ids is None and self._tokens and details.generated_tokens != 0:
            raise self._broken("the answer has no token ids")
        self._advance(frame, ids or (), whole[len(sent) :], events)
        count = self._count if details.generated_tokens is None else details.generated_tokens
        finished = self._reason(details, details.finish_reason, count)
        if not whole and not self._tokens:
            events.append(TextDelta(text=""))
        events.append(finished)
        events.append(self._usage(details, count))
        self.ended = True

    def _reason(self, details: _Details, word: str, count: int) -> Finished:
        """Raises UpstreamFailed for an answer that ended with a failure."""
        failed = word.lower() in FAILED or (word == STOPPED and not (self._stops and count))
        if failed:
            raise UpstreamFailed(
                f"the answer ended with {word!r}: the server aborted it",
                upstream=self._upstream,
                code=word.lower().replace(" ", "_"),
                usage=self._usage(details, count),
            )
        reason = FINISH.get(word, "stop")
        return Finished(reason=reason, native="" if word == reason else word, seed=details.seed)

    def _usage(self, details: _Details, count: int) -> Usage:
        """Return usage; the prompt's tokens are counted here if the request sent tokens."""
        prompt = details.prompt_tokens if self._prompt is None else self._prompt
        return Usage(
            prompt_tokens=prompt,
            completion_tokens=count,
            total_tokens=None if prompt is None else prompt + count,
        )

    def _broken(self, problem: str) -> UpstreamBroken:
        return UpstreamBroken(problem, upstream=self._upstream)


def _head(data: bytes) -> str:
    return data[:80].decode(errors="replace")
