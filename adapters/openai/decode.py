"""Decodes answers of the OpenAI dialect to events: chat and completions, streamed or complete.

A stream is complete after `[DONE]`. Some servers omit the mark: without it every choice must have
finished, and then nothing but the usage can be missing, which comes last. So usage is as good a
mark as `[DONE]`, and a stream with neither was cut short if its server is known to send the mark,
or if its frames had `"usage": null`, which announces the usage. A complete body produces the same
events as a stream.
https://platform.openai.com/docs/api-reference/chat/create (`stream_options.include_usage`)
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw

from strowger_gateway.adapters.base import STRAY, Endpoint
from strowger_gateway.adapters.decoder_limits import CHOICES, TOOLS, overfull
from strowger_gateway.adapters.errors import error_inside
from strowger_gateway.adapters.framing import TextPlace, place_of
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_object
from strowger_gateway.adapters.openai.answer_head import AnswerHead, continued, usage_from
from strowger_gateway.adapters.openai.choice_state import ChoiceState, whole_message
from strowger_gateway.adapters.openai.finish_reasons import FAILED, FINISH
from strowger_gateway.adapters.openai.logprobs import refusal_logprobs, token_logprobs
from strowger_gateway.adapters.openai.message_repair import repaired
from strowger_gateway.adapters.openai.model_families import is_gemini
from strowger_gateway.adapters.openai.thought_blocks import (
    DETAILS,
    beside_blocks,
    last_deltas,
    reasoning_deltas,
    signed,
)
from strowger_gateway.adapters.openai.tool_calls import ToolCalls
from strowger_gateway.adapters.openai.wire import (
    Choice,
    Chunk,
    OpenChunk,
    ToolPiece,
    WireMessage,
    is_refused,
    read_loose,
    read_text_chunk,
    reports_failure,
)
from strowger_gateway.schemas.errors import UpstreamBroken, UpstreamFailed
from strowger_gateway.schemas.events import (
    OF_CHOICE,
    Event,
    Finished,
    FinishReason,
    OpaqueDelta,
    RefusalDelta,
    TextDelta,
    TokenLogprob,
    Usage,
)

_EMPTY_LIST = Raw(b"[]")


DONE = b"[DONE]"
_TROUBLE = frozenset({"error_code", "error_type", "detail", "message", "msg"})
"""Fields whose text only an error has; `error` itself also occurs next to choices."""

_BAIDUS_ERROR = frozenset({"error_code", "error_msg"})
"""Huawei's, too."""

_UNFINISHED = Choice()
_encode = msgspec.json.Encoder().encode


class OpenAIDecoder:
    """Decodes one answer. stream: whether a stream was requested.

    choices: how many were requested; an answer without `[DONE]` must have that many.
    marked: the server ends every stream with `[DONE]`, so one without it and without usage was cut.
    ended: see EndMarked.
    by_block: the client's dialect has reasoning in blocks, which `reasoning_details` become; other
              clients get that field as it came.
    proof_format: of proofs that name none; "": they count as Claude's.
    """

    marked: bool = False
    by_block: bool = False
    proof_format: str = ""
    finish: Mapping[str, FinishReason] = FINISH
    failed: frozenset[str] = FAILED

    def __init__(self, endpoint: Endpoint, *, stream: bool, choices: int = 1) -> None:
        self._endpoint = endpoint
        self._expected = choices
        self._stream = stream
        self.ended = False
        self._usage = NULL
        self._counts: Usage | None = None
        self._announced = False  # a frame had `"usage": null`
        self._counted = False  # usage came, and every choice had finished
        self._plain = False  # the last frame was read as a TextChunk
        self._only_text = False  # the last frame was a piece of text of a choice that has begun
        self._head = AnswerHead(endpoint.name, stream=stream)
        self._choices: dict[int, ChoiceState] = {}
        self._begun: set[int] = set()  # choices of which text was emitted

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        self._plain = False
        if self._only_text and not event:
            # What `_chunk` returns for a frame with nothing but a piece of text, in a sixth of the
            # time. Tried only after such a frame, so that others are not decoded twice.
            try:
                piece = read_text_chunk(data)
            except UNREADABLE:
                self._only_text = False
            else:
                extra = self._head.extra
                mark, tier, usage = piece.system_fingerprint, piece.service_tier, piece.usage
                if (
                    (usage is self._usage or usage == self._usage)
                    and (mark is NULL or mark == extra.get("system_fingerprint", NULL))
                    and (tier is NULL or tier == extra.get("service_tier", NULL))
                ):
                    choice = piece.choices[0]
                    if choice.index in self._begun:
                        self._plain = True
                        return (TextDelta(text=choice.delta.content, index=choice.index),)
        if self.ended:
            return ()
        if data == DONE:
            return self._end()
        if event == "error":
            raise error_inside(self._endpoint, data)
        head = self._head
        try:
            chunk = head.read(data)
        except UNREADABLE:
            if self._stream and data.strip() in (b"", DONE):
                return self._end() if data.strip() else ()
            odd = self._odd(event, data)
            if odd is None:
                return ()
            chunk = odd
        events = self._chunk(chunk, data)
        if head.strict and len(events) == 1:
            first = events[0]
            self._only_text = type(first) is TextDelta and not first.logprobs
        return events

    def close(self) -> Sequence[Event]:
        """Without `[DONE]` the body is complete only if every choice in it has finished."""
        if self.ended:
            return ()
        if not self._all_finished():
            raise UpstreamBroken("stream ended early", upstream=self._endpoint.name)
        if (self.marked or self._announced) and not self._counted:
            what = "stream ended without [DONE] and without usage"
            raise UpstreamBroken(what, upstream=self._endpoint.name)
        self.ended = True
        return ()

    def text_place(self, data: bytes, index: int) -> TextPlace | None:
        """See TextPlaces."""
        ours = self._plain and type(self).feed is OpenAIDecoder.feed
        return place_of(data, index) if ours else None

    def usage(self, chunk: OpenChunk) -> Usage | None:
        """Return the totals so far if this chunk changes them; variants may count differently."""
        usage = chunk.usage
        if usage is NULL or usage == self._usage or usage == NULL:
            return None
        self._usage = usage.copy()
        self._counts = continued(self._counts, usage_from(self._usage))
        return self._counts

    def _odd(self, event: str, data: bytes) -> OpenChunk | None:
        """Handle a frame outside the dialect: repair it, skip it, or raise its error."""
        try:
            loose = read_loose(data)
            if loose.error == NULL and loose.choices is not None:
                return repaired(loose)
        except UNREADABLE as exc:
            if not self._is_error(event, data):
                raise self._broken(data) from exc
        if self._is_error(event, data):
            raise error_inside(self._endpoint, data)
        if not self._stream:
            raise self._broken(data)
        return None

    def _is_error(self, event: str, data: bytes) -> bool:
        """Return whether the frame contains an error, or text in place of a frame."""
        try:
            fields = read_object(data)
        except UNREADABLE:
            return event == STRAY
        if fields.get("error", NULL) != NULL or is_refused(fields.get("base_resp", NULL)):
            return True
        if fields.keys() >= _BAIDUS_ERROR:
            return True
        texts = any(bytes(fields[name])[:1] in (b'"', b"[") for name in _TROUBLE & fields.keys())
        return "choices" not in fields and (event == STRAY or texts)

    def _broken(self, data: bytes) -> UpstreamBroken:
        what = "a frame" if self._stream else "the answer"
        head = data[:80].decode(errors="replace")
        return UpstreamBroken(f"cannot read {what}: {head}", upstream=self._endpoint.name)

    def _chunk(self, chunk: OpenChunk, data: bytes) -> Sequence[Event]:
        events: list[Event] = []
        if not chunk.choices and not isinstance(chunk, Chunk) and reports_failure(data):
            raise error_inside(self._endpoint, data)
        if not self._head.known:
            self._head.emit_start(chunk, data, events)
        try:
            for choice in chunk.choices:
                self._choice(choice, events)
        except UNREADABLE as exc:
            raise self._broken(data) from exc
        except UpstreamFailed as exc:
            exc.usage = self.usage(chunk)
            raise
        if not self._stream:
            self._finish_whole(events)
        if chunk.usage is not NULL and not self._counted:
            self._announced = self._announced or chunk.usage == NULL
            self._counted = chunk.usage != NULL and self._all_finished()
        usage = self.usage(chunk)
        if usage is not None:
            events.append(usage)
        return events

    def _all_finished(self) -> bool:
        finished = sum(one.finished for one in self._choices.values())
        return finished >= max(self._expected, len(self._choices))

    def _choice(self, choice: Choice, events: list[Event]) -> None:
        index, states = choice.index, self._choices
        state = states.get(index)
        if state is None:
            most = max(self._expected, CHOICES)
            if len(states) >= most:
                raise overfull(most, "choices", self._endpoint.name)
            state = states[index] = ChoiceState()
        message = choice.delta
        if message is None or choice.message is not None:
            if self._stream:
                message = state.news(choice, shown=state.shown)
            else:
                message = whole_message(choice)
        self._message(choice, message, state, events)
        if choice.finish_reason is not None and not state.finished:
            self._finish(index, state, choice, events)

    def _message(
        self, choice: Choice, message: WireMessage, state: ChoiceState, events: list[Event]
    ) -> None:
        index = choice.index
        before = len(events)
        opaque = message.opaque
        if (
            opaque is not None
            or message.reasoning
            or message.reasoning_content
            or message.reasoning_signature
        ):
            events += reasoning_deltas(
                message, state, index, format=self.proof_format, by_block=self.by_block
            )
            if opaque and DETAILS in opaque:
                opaque = beside_blocks(message, opaque, by_block=self.by_block)
        text = message.content
        if text is None:
            text = choice.text
        logprobs: tuple[TokenLogprob, ...] = ()
        refused: tuple[TokenLogprob, ...] = ()
        if choice.logprobs is not None:
            logprobs, refused = token_logprobs(choice.logprobs), refusal_logprobs(choice.logprobs)
        if text or logprobs:
            self._begun.add(index)
            events.append(TextDelta(text=text or "", index=index, logprobs=logprobs))
        if text is not None:
            state.blank = True
        if message.refusal or refused:
            state.replaced = True
            events.append(RefusalDelta(text=message.refusal or "", index=index, logprobs=refused))
        if opaque:
            state.replaced = True
            state.old_call = state.old_call or "function_call" in opaque
        if message.tool_calls and (others := self._calls(message.tool_calls, index, state, events)):
            opaque = {**(opaque or {}), "tool_calls": Raw(_encode(others))}
        if message.annotations is not None:
            opaque = {**(opaque or {}), "annotations": _EMPTY_LIST}
        if opaque:
            events.append(OpaqueDelta(fields=opaque, index=index))
        if len(events) > before:
            state.shown = True
        # `is not NULL`: the default object means that the field was absent, a cheaper test than ==.
        if choice.more or (
            choice.content_filter_results is not NULL or choice.content_filter_offsets is not NULL
        ):
            extra = {**state.verdicts(choice), **(choice.more or {})}
            if extra:
                beside = {f"{OF_CHOICE}{name}": raw for name, raw in extra.items()}
                events.append(OpaqueDelta(fields=beside, index=index))

    def _calls(
        self,
        pieces: Sequence[ToolPiece],
        index: int,
        state: ChoiceState,
        events: list[Event],
    ) -> Sequence[object]:
        """Handle calls; return the pieces that are forwarded unchanged."""
        tools = state.tools
        if tools is None:
            tools = state.tools = ToolCalls(index, self._head.id)
        for piece in pieces:
            deltas = tools.add(piece)
            if not self.by_block:
                events.extend(deltas)
            elif self._stream and is_gemini(self._head.model):
                # Its calls come whole, and their proofs may come later.
                state.held += deltas
                state.shown = True
            else:
                events.extend(signed(deltas, state))
            if len(tools) > TOOLS:
                what = f"the answer has over {TOOLS} tool calls"
                raise UpstreamBroken(what, upstream=self._endpoint.name)
        return tools.others()

    def _finish(self, index: int, state: ChoiceState, choice: Choice, events: list[Event]) -> None:
        word = choice.finish_reason or ""
        lower = word.lower()
        native = choice.native_finish_reason or word
        # OpenRouter calls some failures a `stop`, and names them only in the native reason.
        for ended, code in ((word, lower), (native, native.lower())):
            if code in self.failed:
                raise UpstreamFailed(
                    f"the answer ended with {ended!r}", upstream=self._endpoint.name, code=code
                )
        reason = self.finish.get(lower, "stop")
        if state.held or state.signatures:
            events.extend(last_deltas(state, index))
        if state.tools:
            if reason == "stop":
                reason = "tool_calls"
            events.extend(state.tools.close())
        else:
            if reason == "tool_calls" and not state.old_call:
                reason = "stop"
            if state.blank and index not in self._begun and self._is_answer(state):
                events.append(TextDelta(text="", index=index))
        state.finished = True
        stop_match = choice.stop_reason
        if stop_match is None:
            stop_match = choice.matched_stop
        events.append(
            Finished(
                reason=reason,
                index=index,
                native="" if native == reason != choice.native_finish_reason else native,
                stop_match=stop_match,
                seed=choice.seed,
            )
        )

    def _is_answer(self, state: ChoiceState) -> bool:
        """Return whether a text that stayed empty is the answer; a stream said less before it."""
        return not (state.shown if self._stream else state.replaced)

    def _finish_whole(self, events: list[Event]) -> None:
        """A complete answer needs no end mark; a missing finish reason counts as an empty one."""
        if not self._choices:
            raise UpstreamBroken("the answer has no choices", upstream=self._endpoint.name)
        for index, state in self._choices.items():
            if not state.finished:
                self._finish(index, state, _UNFINISHED, events)
        self.ended = True

    def _end(self) -> Sequence[Event]:
        """`[DONE]` ends choices that were started but not finished, but never an empty stream."""
        self.ended = True
        events: list[Event] = []
        for index, state in self._choices.items():
            if not state.finished:
                if not state.shown:
                    raise UpstreamBroken("stream ended empty", upstream=self._endpoint.name)
                self._finish(index, state, _UNFINISHED, events)
        if not self._choices:
            raise UpstreamBroken("stream ended empty", upstream=self._endpoint.name)
        return events
