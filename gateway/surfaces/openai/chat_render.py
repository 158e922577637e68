"""Render chat answers in the OpenAI dialect, whole and streamed.

https://platform.openai.com/docs/api-reference/chat
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, assert_never

from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.openai.envelope import (
    ChatLogprob,
    OpenAIRenderer,
    chat_logprobs,
    encode,
    with_members,
)
from strowger_gateway.gateway.surfaces.openai.reasoning import (
    ReasoningBlocks,
    ReasoningDetail,
    flat_signature,
    reasoning_details,
)
from strowger_gateway.gateway.surfaces.openai.whole_tool_calls import FIELD as CALLS
from strowger_gateway.gateway.surfaces.openai.whole_tool_calls import merge_tool_calls
from strowger_gateway.gateway.surfaces.sse import one_line
from strowger_gateway.schemas.answers import Choice
from strowger_gateway.schemas.events import (
    OF_CHOICE,
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
from strowger_gateway.schemas.messages import ToolCall
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.searches import SEARCHES

ReasoningNames = Literal["reasoning", "reasoning_content", "both"]
"""The field for a model's reasoning: servers of the dialect use different names."""


class _Function(Struct, frozen=True, kw_only=True):
    name: str | UnsetType = UNSET
    arguments: str


class _Google(Struct, frozen=True, kw_only=True):
    thought_signature: str


class _ExtraContent(Struct, frozen=True, kw_only=True):
    """The place of the signature in Google's own endpoint of this dialect."""

    google: _Google


class _ToolCall(Struct, frozen=True, kw_only=True):
    index: int | UnsetType = UNSET
    id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    function: _Function
    extra_content: _ExtraContent | UnsetType = UNSET


class _Delta(Struct, frozen=True, kw_only=True):
    role: str | UnsetType = UNSET
    content: str | None | UnsetType = UNSET
    refusal: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning_signature: str | UnsetType = UNSET
    reasoning_details: list[ReasoningDetail] | UnsetType = UNSET
    tool_calls: tuple[_ToolCall, ...] | UnsetType = UNSET


class _Logprobs(Struct, frozen=True, kw_only=True):
    content: list[ChatLogprob] | None
    refusal: list[ChatLogprob] | None = None


class _ChunkChoice(Struct, frozen=True, kw_only=True):
    index: int
    delta: _Delta | Raw
    logprobs: _Logprobs | UnsetType = UNSET
    finish_reason: FinishReason | None = None
    native_finish_reason: str | UnsetType = UNSET
    stop_reason: str | int | UnsetType = UNSET
    seed: int | UnsetType = UNSET


class _Message(Struct, frozen=True, kw_only=True):
    role: str = "assistant"
    content: str | None
    refusal: str | None
    reasoning: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning_signature: str | UnsetType = UNSET
    reasoning_details: list[ReasoningDetail] | UnsetType = UNSET
    tool_calls: list[Struct | Raw] | UnsetType = UNSET


class _Choice(Struct, frozen=True, kw_only=True):
    index: int
    message: Raw
    logprobs: _Logprobs | None
    finish_reason: FinishReason
    native_finish_reason: str | UnsetType = UNSET
    stop_reason: str | int | UnsetType = UNSET
    seed: int | UnsetType = UNSET


_EMPTY: Final = _Delta()
_CHUNK_CHOICE: Final = frozenset(_ChunkChoice.__struct_fields__)
_WHOLE_CHOICE: Final = frozenset(_Choice.__struct_fields__)


class ChatRenderer(OpenAIRenderer):
    """Render one answer. Mutable state: also the choices begun, and tools without arguments."""

    WHOLE = "chat.completion"
    CHUNK = "chat.completion.chunk"
    EMPTY = b'{"index":0,"delta":{},"finish_reason":null}'

    def __init__(
        self,
        request: ChatRequest,
        *,
        id: str,
        created: int,
        reasoning: ReasoningNames = "both",
        running_usage: bool = False,
    ) -> None:
        super().__init__(request, id=id, created=created, running_usage=running_usage)
        self._reasoning = reasoning != "reasoning_content"
        self._reasoning_content = reasoning != "reasoning"
        self._begun: set[int] = set()
        self._tools: dict[tuple[int, int], bool] = {}
        self._blocks: ReasoningBlocks | None = None

    def _event(self, event: Event, out: list[bytes]) -> None:
        match event:
            case TextDelta() | Tokens():
                self._text(event.index, event.text, event.logprobs, out)
            case ReasoningDelta():
                self._begin(event.index, "", out)
                if self._blocks is None:
                    self._blocks = ReasoningBlocks()
                blocks = self._blocks.add(event)
                proof = flat_signature(event.signature, event.format)
                thought = self._thought(event.text, proof, blocks)
                if thought != _EMPTY:
                    self._delta(event.index, thought, out)
            case RefusalDelta():
                self._begin(event.index, None, out)
                choice = _ChunkChoice(
                    index=event.index,
                    delta=_Delta(refusal=event.text),
                    logprobs=_logprobs((), event.logprobs) or UNSET,
                )
                self._put(choice, out)
            case ToolDelta():
                self._tool(event, out)
            case OpaqueDelta():
                self._begin(event.index, None, out)
                self._fields(event, out)
            case Finished():
                self._finished(event, out)
            case Usage():
                self._usage = event
            case Started():
                self._chunks.started(event)
                self._before.clear()
            case Logits() | NativeDelta():
                pass
            case _:
                assert_never(event)

    def _begin(self, index: int, content: str | None, out: list[bytes]) -> None:
        """Send the chunk with the role, before anything else of a choice.

        content: "" if text may follow, `None` if something else follows.
        """
        if index not in self._begun:
            self._begun.add(index)
            self._delta(index, _Delta(role="assistant", content=content), out)

    def _delta(self, index: int, delta: _Delta | Raw, out: list[bytes]) -> None:
        self._put(_ChunkChoice(index=index, delta=delta), out)

    def _text(
        self, index: int, text: str, logprobs: tuple[TokenLogprob, ...], out: list[bytes]
    ) -> None:
        self._begin(index, "", out)
        if index not in self._before:
            head, tail = self._chunks.around()
            self._before[index] = head + b'{"index":%d,"delta":{"content":' % index
            self._after = b'},"finish_reason":null}' + tail
        if logprobs:
            known = _logprobs(logprobs, ()) or UNSET
            choice = _ChunkChoice(index=index, delta=_Delta(content=text), logprobs=known)
            self._put(choice, out)
        elif text:
            out += (self._before[index], encode(text), self._after)

    def _tool(self, event: ToolDelta, out: list[bytes]) -> None:
        self._begin(event.index, None, out)
        key = (event.index, event.tool)
        first = key not in self._tools
        self._tools[key] = bool(event.arguments) or (not first and self._tools[key])
        if first:
            call = _ToolCall(
                index=event.tool,
                id=event.id,
                type="function",
                function=_Function(name=event.name, arguments=event.arguments),
                extra_content=_extra(event.signature),
            )
        else:
            call = _ToolCall(index=event.tool, function=_Function(arguments=event.arguments))
        self._delta(event.index, _Delta(tool_calls=(call,)), out)

    def _finished(self, event: Finished, out: list[bytes]) -> None:
        self._begin(event.index, "", out)
        rest = self._blocks.rest(event.index) if self._blocks is not None else []
        if rest:
            self._delta(event.index, _Delta(reasoning_details=rest), out)
        called = False
        for (index, tool), has_arguments in self._tools.items():
            if index == event.index:
                called = True
                if not has_arguments:
                    call = _ToolCall(index=tool, function=_Function(arguments="{}"))
                    self._delta(index, _Delta(tool_calls=(call,)), out)
        choice = _ChunkChoice(
            index=event.index,
            delta=_EMPTY,
            finish_reason=_reason(event, called),
            native_finish_reason=event.native or UNSET,
            stop_reason=UNSET if event.stop_match is None else event.stop_match,
            seed=UNSET if event.seed is None else event.seed,
        )
        self._put(choice, out)

    def _fields(self, event: OpaqueDelta, out: list[bytes]) -> None:
        inside, beside = _parted(event.fields)
        if not inside and not beside:
            return
        lines = {name: Raw(one_line(bytes(raw))) for name, raw in inside.items()}
        choice = encode(_ChunkChoice(index=event.index, delta=Raw(encode(lines))))
        out.append(self._chunks.chunk(with_members(choice, beside, _CHUNK_CHOICE)))

    def _thought(self, text: str, signature: str, blocks: list[ReasoningDetail]) -> _Delta:
        return _Delta(
            reasoning=text if text and self._reasoning else UNSET,
            reasoning_content=text if text and self._reasoning_content else UNSET,
            reasoning_signature=signature or UNSET,
            reasoning_details=blocks or UNSET,
        )

    def _choice(self, choice: Choice, finish: Finished) -> _Choice | Raw:
        message = encode(self._message(choice))
        inside, beside = _parted(choice.opaque)
        if inside:
            more = {name: raw for name, raw in inside.items() if name != CALLS}
            message = with_members(message, more, kept=())
        rendered = _Choice(
            index=choice.index,
            message=Raw(message),
            logprobs=_logprobs(choice.logprobs, choice.refusal_logprobs),
            finish_reason=_reason(finish, bool(choice.tool_calls)),
            native_finish_reason=finish.native or UNSET,
            stop_reason=UNSET if finish.stop_match is None else finish.stop_match,
            seed=UNSET if finish.seed is None else finish.seed,
        )
        return Raw(with_members(encode(rendered), beside, _WHOLE_CHOICE)) if beside else rendered

    def _whole_thought(self, choice: Choice) -> _Delta:
        last = choice.thoughts[-1]
        signature = flat_signature(last.signature, last.format)
        return self._thought(choice.reasoning, signature, reasoning_details(choice.thoughts))

    def _message(self, choice: Choice) -> _Message:
        calls: list[Struct | Raw] = [_whole_call(call) for call in choice.tool_calls]
        if CALLS in choice.opaque:
            calls = merge_tool_calls(calls, choice.opaque[CALLS])
        if not choice.thoughts:
            return _Message(
                content=_content(choice), refusal=choice.refusal, tool_calls=calls or UNSET
            )
        thought = self._whole_thought(choice)
        return _Message(
            content=_content(choice),
            refusal=choice.refusal,
            reasoning=thought.reasoning,
            reasoning_content=thought.reasoning_content,
            reasoning_signature=thought.reasoning_signature,
            reasoning_details=thought.reasoning_details,
            tool_calls=calls or UNSET,
        )


def _logprobs(content: Sequence[TokenLogprob], refusal: Sequence[TokenLogprob]) -> _Logprobs | None:
    if not content and not refusal:
        return None
    return _Logprobs(
        content=chat_logprobs(content) if content else None,
        refusal=chat_logprobs(refusal) if refusal else None,
    )


def _content(choice: Choice) -> str | None:
    """Return `null` if something else replaces the text, and "" if nothing does."""
    if choice.text or choice.tool_calls or choice.refusal:
        return choice.text or None
    return None if choice.text is None and choice.opaque else ""


def _parted(fields: Mapping[str, Raw]) -> tuple[Mapping[str, Raw], Mapping[str, Raw]]:
    """Return a vendor's fields of the message, and those next to it."""
    if SEARCHES in fields:  # what was cited is in `annotations`
        fields = {name: raw for name, raw in fields.items() if name != SEARCHES}
    beside = {name: raw for name, raw in fields.items() if name.startswith(OF_CHOICE)}
    if not beside:
        return fields, beside
    return {name: raw for name, raw in fields.items() if name not in beside}, beside


def _whole_call(call: ToolCall) -> _ToolCall:
    function = _Function(name=call.name, arguments=call.arguments or "{}")
    return _ToolCall(
        id=call.id, type="function", function=function, extra_content=_extra(call.signature)
    )


def _extra(signature: str) -> _ExtraContent | UnsetType:
    return _ExtraContent(google=_Google(thought_signature=signature)) if signature else UNSET


def _reason(finish: Finished, called: bool) -> FinishReason:
    """Return "tool_calls" for a choice that called a tool, even if the vendor reports "stop"."""
    return "tool_calls" if called and finish.reason == "stop" else finish.reason
