"""Decodes answers of TGI's `/generate` and `/generate_stream` to events.

The last event of a stream has `generated_text`, and there is no `[DONE]`. Special tokens are not
text. A complete answer may be wrapped in a list; a header field has the size of its prompt.
https://huggingface.github.io/text-generation-inference/
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.base import STRAY, Endpoint
from strowger_gateway.adapters.errors import error_inside, unreadable
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.schemas.errors import UpstreamBroken
from strowger_gateway.schemas.events import Event, Finished, FinishReason, Started, TextDelta, Usage

FINISH: Mapping[str, FinishReason] = {
    "eos_token": "stop",
    "stop_sequence": "stop",
    "length": "length",
}
PROMPT_TOKENS = "x-prompt-tokens"


class _Token(Struct, frozen=True, kw_only=True):
    text: str = ""
    special: bool = False


class _Details(Struct, frozen=True, kw_only=True):
    """input_length: only in streams, and only in newer versions."""

    finish_reason: str | None = None
    generated_tokens: int | None = None
    seed: int | None = None
    input_length: int | None = None


class _Frame(Struct, frozen=True, kw_only=True):
    token: _Token | None = None
    generated_text: str | None = None
    details: _Details | None = None
    error: Raw = NULL


_frame = msgspec.json.Decoder(_Frame)
_whole: msgspec.json.Decoder[_Frame | tuple[_Frame, ...]] = msgspec.json.Decoder(
    _Frame | tuple[_Frame, ...]
)
_NOTHING = _Details()


class TgiDecoder:
    """prompt: its number of tokens, if the answer's head has it."""

    def __init__(self, endpoint: Endpoint, *, stream: bool, prompt: int | None = None) -> None:
        self._endpoint = endpoint
        self._stream = stream
        self._prompt = prompt
        self._started = False
        self.ended = False
        self._shown = False

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        if event in (STRAY, "error"):
            raise error_inside(self._endpoint, data)
        if self.ended:
            return ()
        frame = self._read(data)
        if frame.error != NULL:
            raise error_inside(self._endpoint, data)
        events: list[Event] = []
        if not self._started:
            self._started = True
            events.append(Started())
        if not self._stream:
            if frame.generated_text is None:
                raise self._broken(f"the answer has no text: {_head(data)}")
            self._show(frame.generated_text, events)
        elif frame.token is None:
            raise self._broken(f"a frame has no token: {_head(data)}")
        elif not frame.token.special:
            self._show(frame.token.text, events)
        if frame.generated_text is not None:
            self._end(frame.details or _NOTHING, events)
        return events

    def close(self) -> Sequence[Event]:
        if not self.ended:
            raise self._broken("stream ended early")
        return ()

    def _read(self, data: bytes) -> _Frame:
        try:
            if self._stream:
                return _frame.decode(data)
            found = _whole.decode(data)
        except UNREADABLE as exc:
            raise unreadable(self._endpoint, data) from exc
        if isinstance(found, _Frame):
            return found
        if len(found) != 1:
            raise self._broken(f"returned {len(found)} answers, expected 1")
        return found[0]

    def _show(self, text: str, events: list[Event]) -> None:
        if text:
            self._shown = True
            events.append(TextDelta(text=text))

    def _end(self, details: _Details, events: list[Event]) -> None:
        """Emit the end; a missing reason counts as `stop`: older versions send none by default."""
        self.ended = True
        if not self._shown:
            events.append(TextDelta(text=""))
        word = details.finish_reason or "stop"
        reason = FINISH.get(word, "stop")
        native = "" if word == reason else word
        events.append(Finished(reason=reason, native=native, seed=details.seed))
        prompt = self._prompt if details.input_length is None else details.input_length
        count = details.generated_tokens
        known = prompt is not None and count is not None
        events.append(
            Usage(
                prompt_tokens=prompt,
                completion_tokens=count,
                total_tokens=(prompt or 0) + (count or 0) if known else None,
            )
        )

    def _broken(self, problem: str) -> UpstreamBroken:
        return UpstreamBroken(problem, upstream=self._endpoint.name)


def prompt_tokens(headers: Mapping[str, str]) -> int | None:
    """Return the prompt's number of tokens from the head of a complete answer."""
    count = headers.get(PROMPT_TOKENS, "")
    return int(count) if count.isascii() and count.isdigit() else None


def _head(data: bytes) -> str:
    return data[:80].decode(errors="replace")
