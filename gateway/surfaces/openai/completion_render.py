"""Render legacy completions in the OpenAI dialect, whole and streamed.

https://platform.openai.com/docs/api-reference/completions. Several prompts need nothing here:
`index` is already prompt x n + choice, and an echo is already part of the text.
"""

from collections.abc import Iterable
from typing import assert_never

from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.openai.envelope import (
    OpenAIRenderer,
    encode,
    finite,
    with_members,
)
from strowger_gateway.gateway.surfaces.sse import one_line
from strowger_gateway.schemas.answers import Choice
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    FinishReason,
    Logits,
    NativeDelta,
    OpaqueDelta,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    TokenLogprob,
    Tokens,
    ToolDelta,
    Usage,
)
from strowger_gateway.schemas.requests import CompletionRequest


class _Logprobs(Struct, frozen=True, kw_only=True):
    """Columns. text_offset: start of each token in the choice's text, in characters.

    If the backend does not return offsets, they are the sums of the token lengths.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class _Choice(Struct, frozen=True, kw_only=True):
    index: int
    text: str
    logprobs: _Logprobs | None = None
    finish_reason: FinishReason | None = None
    native_finish_reason: str | UnsetType = UNSET
    stop_reason: str | int | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET


class CompletionRenderer(OpenAIRenderer):
    """Render one answer. Mutable state: also the length of each choice's text so far."""

    WHOLE = CHUNK = "text_completion"
    EMPTY = b'{"index":0,"text":"","logprobs":null,"finish_reason":null}'

    def __init__(
        self, request: CompletionRequest, *, id: str, created: int, running_usage: bool = False
    ) -> None:
        super().__init__(request, id=id, created=created, running_usage=running_usage)
        self._offsets: dict[int, int] = {}

    def _event(self, event: Event, out: list[bytes]) -> None:
        match event:
            case TextDelta() | Tokens():
                self._text(event.index, event.text, event.logprobs, out)
            case RefusalDelta():
                self._text(event.index, event.text, (), out)
            case ReasoningDelta():
                if event.text:
                    self._put(_Choice(index=event.index, text="", reasoning=event.text), out)
            case OpaqueDelta():
                lines = {name: Raw(one_line(bytes(raw))) for name, raw in event.fields.items()}
                choice = encode(_Choice(index=event.index, text=""))
                out.append(self._chunks.chunk(with_members(choice, lines)))
            case Finished():
                self._put(_finish_choice(event), out)
            case Usage():
                self._usage = event
            case Started():
                self._chunks.started(event)
                self._before.clear()
            case ToolDelta() | Logits() | NativeDelta():
                pass  # a completion has no tools, and the dialect no field for logits
            case _:
                assert_never(event)

    def _text(
        self, index: int, text: str, logprobs: tuple[TokenLogprob, ...], out: list[bytes]
    ) -> None:
        if logprobs:
            columns = _columns(logprobs, self._offsets.get(index, 0))
            self._offsets[index] = columns.text_offset[-1] + len(columns.tokens[-1])
            self._put(_Choice(index=index, text=text, logprobs=columns), out)
        elif text:
            if index not in self._before:
                head, tail = self._chunks.around()
                self._before[index] = head + b'{"index":%d,"text":' % index
                self._after = b',"logprobs":null,"finish_reason":null}' + tail
                self._put(_Choice(index=index, text=text), out)
            else:
                out += (self._before[index], encode(text), self._after)

    def _choice(self, choice: Choice, finish: Finished) -> Raw:
        body = _Choice(
            index=choice.index,
            text=choice.text or choice.refusal or "",
            logprobs=_columns(choice.logprobs, 0) if choice.logprobs else None,
            finish_reason=finish.reason,
            native_finish_reason=finish.native or UNSET,
            stop_reason=UNSET if finish.stop_match is None else finish.stop_match,
            seed=UNSET if finish.seed is None else finish.seed,
            reasoning=choice.reasoning or UNSET,
        )
        return Raw(with_members(encode(body), choice.opaque))


def _finish_choice(event: Finished) -> _Choice:
    return _Choice(
        index=event.index,
        text="",
        finish_reason=event.reason,
        native_finish_reason=event.native or UNSET,
        stop_reason=UNSET if event.stop_match is None else event.stop_match,
        seed=UNSET if event.seed is None else event.seed,
    )


def _columns(logprobs: Iterable[TokenLogprob], offset: int) -> _Logprobs:
    tokens: list[str] = []
    values: list[float | None] = []
    tops: list[dict[str, float] | None] = []
    offsets: list[int] = []
    for item in logprobs:
        tokens.append(item.token)
        values.append(None if item.logprob is None else finite(item.logprob))
        tops.append({top.token: finite(top.logprob) for top in item.top} or None)
        offset = offset if item.offset is None else item.offset
        offsets.append(offset)
        offset += len(item.token)
    return _Logprobs(
        tokens=tokens,
        token_logprobs=values,
        top_logprobs=tops if any(tops) else None,
        text_offset=offsets,
    )
