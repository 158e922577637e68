"""Decodes Gemini's answers to events, streamed or complete.

A stream has no end mark: it is complete when every candidate has a finish reason. The reason may
come after the last call, or in every frame, so choices finish with the body.
https://ai.google.dev/api/generate-content#generatecontentresponse
"""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.decoder_limits import CHOICES, NOTES, overfull
from strowger_gateway.adapters.errors import unreadable
from strowger_gateway.adapters.gemini.errors import error_inside
from strowger_gateway.adapters.gemini.finish_reasons import FAILED, FINISH
from strowger_gateway.adapters.gemini.generated_images import image_from
from strowger_gateway.adapters.gemini.logprobs import token_logprobs
from strowger_gateway.adapters.gemini.original_fields import is_native
from strowger_gateway.adapters.gemini.other_parts import PARTS, as_reasoning
from strowger_gateway.adapters.gemini.partial_arguments import PartialCall
from strowger_gateway.adapters.gemini.usage import usage_from
from strowger_gateway.adapters.gemini.wire import (
    Candidate,
    FunctionCall,
    Part,
    PromptFeedback,
    Response,
    read_candidate,
    read_part,
    read_response,
)
from strowger_gateway.adapters.generated_images import IMAGES, Image
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_list, read_object
from strowger_gateway.adapters.openai.answer_head import continued
from strowger_gateway.adapters.web_search.answers import grounding_of
from strowger_gateway.schemas.errors import UpstreamBroken, UpstreamFailed
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    NativeDelta,
    OpaqueDelta,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    TokenLogprob,
    ToolDelta,
    Usage,
)
from strowger_gateway.schemas.messages import GEMINI
from strowger_gateway.schemas.requests import ChatRequest, GenerateRequest, expected_choices
from strowger_gateway.schemas.searches import citations_field, offers_search, searches_field

RESPONSE = frozenset(
    ("candidates", "createTime", "error", "modelVersion", "responseId", "usageMetadata")
)
CONTENT = "gemini_content"
"""The field of a whole answer with its parts as they are, for clients of this API."""

CANDIDATE = frozenset(("content", "finishMessage", "finishReason", "index", "logprobsResult"))
PART = frozenset(("functionCall", "text", "thought", "thoughtSignature"))
"""Members that are read; all others are forwarded to the client unchanged."""

_CAPITAL = re.compile("[A-Z]")

_encode = msgspec.json.Encoder().encode


class _Choice(Struct, kw_only=True):
    """The state of a candidate.

    block:   index of its next reasoning block.
    blocked: the prompt was rejected; `finish` has the reason.
    texts:   its text, if Google may search for it.
    told:    how many of `parts` are in its reasoning.
    """

    tools: int = 0
    block: int = 0
    thinking: bool = False
    shown: bool = False
    finish: str | None = None
    blocked: bool = False
    refusal: str = ""
    call: PartialCall | None = None
    parts: list[Raw] = []
    told: int = 0
    images: list[Image] = []
    texts: list[str] = []
    opaque: dict[str, Raw] = {}


class GeminiDecoder:
    """Decodes one answer."""

    def __init__(self, endpoint: Endpoint, request: GenerateRequest) -> None:
        self._endpoint = endpoint
        self._expected = expected_choices(request)
        self._streamed = request.stream
        self._native = is_native(request)
        others = isinstance(request, ChatRequest) and request.original is not None
        self._content_only = others and not self._native
        self._searches = isinstance(request, ChatRequest) and offers_search(request)
        self._started = False
        self._head = Started()
        self._choices: dict[int, _Choice] = {}
        self._counts: Usage | None = None

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        events: list[Event] = []
        try:
            # Without `alt=sse`, or from a proxy, an answer can be a list of its frames.
            frames = read_list(data) if data.lstrip()[:1] == b"[" else [Raw(data)]
            for frame in frames:
                response = read_response(frame)
                if response.error != NULL:
                    raise error_inside(self._endpoint, data)
                self._response(response, read_object(frame), events)
        except UNREADABLE as exc:
            raise unreadable(self._endpoint, data) from exc
        return events

    def close(self) -> Sequence[Event]:
        missing = self._streamed and len(self._choices) < self._expected
        choices = sorted(self._choices.items())
        if missing or not choices or any(one.finish is None for _, one in choices):
            raise self._broken("stream ended early")
        events: list[Event] = []
        for index, choice in choices:
            self._tell_parts(index, choice, events)
            _end(index, choice, events)
        return events

    def _response(self, response: Response, fields: dict[str, Raw], events: list[Event]) -> None:
        """Raises one of `UNREADABLE` for an unreadable candidate or part."""
        self._begin(response, fields, events)
        try:
            for candidate in response.candidates or ():
                self._candidate(candidate, events)
        except UpstreamFailed as exc:
            exc.usage = usage_from(response.usage_metadata)
            raise
        if response.prompt_feedback and not self._choices:
            self._blocked(response.prompt_feedback)
        usage = usage_from(response.usage_metadata)
        if usage is not None:
            self._counts = continued(self._counts, usage)
            events.append(self._counts)

    def _begin(self, response: Response, fields: dict[str, Raw], events: list[Event]) -> None:
        """Append `Started`, and again if a later frame has other fields."""
        extra = {**self._head.extra, **_others(fields, RESPONSE)}
        if self._started and extra == self._head.extra:
            return
        if not self._started:
            self._started = True
            self._head = Started(
                id=response.response_id,
                model=response.model_version,
                created=_seconds(response.create_time),
            )
        self._head = replace(self._head, extra=extra)
        events.append(self._head)

    def _blocked(self, feedback: PromptFeedback) -> None:
        """End every choice: the prompt was rejected."""
        if feedback.block_reason:
            for index in range(self._expected):
                self._choices[index] = _Choice(
                    finish=feedback.block_reason,
                    blocked=True,
                    refusal=feedback.block_reason_message or "",
                )

    def _candidate(self, raw: Raw, events: list[Event]) -> None:
        candidate = read_candidate(raw)
        if candidate.index not in self._choices:
            most = max(self._expected, CHOICES)
            if len(self._choices) >= most:
                raise overfull(most, "candidates", self._endpoint.name)
        choice = self._choices.setdefault(candidate.index, _Choice())
        logprobs = token_logprobs(candidate.logprobs_result)
        if self._native and not self._streamed and candidate.content:
            choice.opaque[CONTENT] = Raw(_encode(candidate.content.parts))
        for part in candidate.content.parts if candidate.content else ():
            logprobs = self._part(candidate.index, choice, part, logprobs, events)
        if logprobs:
            events.append(TextDelta(text="", index=candidate.index, logprobs=logprobs))
        choice.opaque |= _others(read_object(raw), CANDIDATE)
        if candidate.finish_reason:
            self._ended(candidate, choice)

    def _ended(self, candidate: Candidate, choice: _Choice) -> None:
        word = candidate.finish_reason or ""
        if word in FAILED:
            reason = f": {candidate.finish_message}" if candidate.finish_message else ""
            raise UpstreamFailed(
                f"the answer ended with {word}{reason}", upstream=self._endpoint.name, code=word
            )
        choice.finish = word
        if FINISH.get(word) == "content_filter":
            choice.refusal = candidate.finish_message or ""
        elif candidate.finish_message:
            choice.opaque["finish_message"] = Raw(_encode(candidate.finish_message))

    def _part(
        self,
        index: int,
        choice: _Choice,
        raw: Raw,
        logprobs: tuple[TokenLogprob, ...],
        events: list[Event],
    ) -> tuple[TokenLogprob, ...]:
        """Return the log probabilities that are not yet attached to a text."""
        part, rest = read_part(raw), _rest(raw)
        if rest and self._native:
            self._own_part(index, choice, part, raw, events)
            if part.text is None and part.function_call is None:
                return logprobs
            rest = {}
        if part.inline_data != NULL and not part.thought:
            image = image_from(part.inline_data, len(choice.images))
            if image is not None:
                if len(choice.images) >= NOTES:
                    raise overfull(NOTES, "images", self._endpoint.name)
                choice.images.append(image)
                del rest["inlineData"]
        if rest:
            if len(choice.parts) >= NOTES:
                raise overfull(NOTES, "parts", self._endpoint.name)
            if part.text is None and part.function_call is None:
                # Its signature must be sent back on the part itself.
                choice.parts.append(raw.copy())
                return logprobs
            choice.parts.append(Raw(_encode(rest)))
        signature = part.thought_signature
        self._tell_parts(index, choice, events)
        if part.function_call is not None:
            self._call(index, choice, part.function_call, signature, events)
            return logprobs
        if part.thought:
            self._thought(index, choice, part.text or "", signature, events)
            return logprobs
        if part.text:
            choice.shown = True
            if self._searches:
                choice.texts.append(part.text)
            events.append(TextDelta(text=part.text, index=index, logprobs=logprobs))
            logprobs = ()
        if signature:
            # A text's signature gets its own block, so that it is sent back with a text.
            choice.block += choice.thinking
            choice.thinking = False
            events.append(
                ReasoningDelta(
                    text="",
                    index=index,
                    signature=signature,
                    block=choice.block,
                    format=GEMINI,
                )
            )
            choice.block += 1
        return logprobs

    def _own_part(
        self, index: int, choice: _Choice, part: Part, raw: Raw, events: list[Event]
    ) -> None:
        """Pass on what our events do not have, to a client of this API; a whole answer has it."""
        choice.shown = True
        if not self._streamed:
            return
        if part.text is None and part.function_call is None:
            events.append(NativeDelta(index=index, block=raw.copy()))
        else:
            fields = Raw(_encode({"text": "", **_rest(raw)}))
            events.append(NativeDelta(index=index, block=fields))

    def _thought(
        self, index: int, choice: _Choice, text: str, signature: str, events: list[Event]
    ) -> None:
        if text or signature:
            events.append(
                ReasoningDelta(
                    text=text,
                    index=index,
                    signature=signature,
                    block=choice.block,
                    format=GEMINI if signature or self._native else "",
                )
            )
        choice.thinking = not signature
        choice.block += bool(signature)

    def _tell_parts(self, index: int, choice: _Choice, events: list[Event]) -> None:
        """Emit the parts since the last text or call as reasoning, where a client needs that."""
        if not self._content_only or choice.told == len(choice.parts):
            return
        data = as_reasoning(choice.parts[choice.told :])
        choice.told = len(choice.parts)
        if data:
            choice.block += choice.thinking
            choice.thinking = False
            events.append(
                ReasoningDelta(text="", index=index, data=data, block=choice.block, format=GEMINI)
            )
            choice.block += 1

    def _call(
        self,
        index: int,
        choice: _Choice,
        call: FunctionCall,
        signature: str,
        events: list[Event],
    ) -> None:
        """Emit a call. Older models send no ids; generated ones contain the answer's unique id."""
        id, name = call.id or f"call_{self._head.id}_{index}_{choice.tools}", call.name or ""
        arguments = "{}" if call.args == NULL else bytes(call.args).decode()
        if call.will_continue or choice.call is not None:
            partial = choice.call or PartialCall(id=id, name=name, signature=signature)
            try:
                partial.add(call.partial_args)
            except ValueError as exc:
                raise self._broken(f"cannot assemble a call's arguments: {exc}") from exc
            choice.call = partial if call.will_continue else None
            if call.will_continue:
                return
            id, name, signature = partial.id, partial.name, partial.signature
            arguments = partial.text()
        events.append(
            ToolDelta(
                tool=choice.tools,
                index=index,
                id=id,
                name=name,
                arguments=arguments,
                signature=signature,
            )
        )
        choice.tools += 1

    def _broken(self, problem: str) -> UpstreamBroken:
        return UpstreamBroken(problem, upstream=self._endpoint.name)


def _end(index: int, choice: _Choice, events: list[Event]) -> None:
    word = choice.finish or ""
    reason = "content_filter" if choice.blocked else FINISH.get(word, "stop")
    if choice.refusal:
        events.append(RefusalDelta(text=choice.refusal, index=index))
    if reason == "stop" and choice.tools:
        reason = "tool_calls"
    if not choice.shown and not choice.tools:
        events.append(TextDelta(text="", index=index))
    opaque = dict(choice.opaque)
    if choice.images:
        opaque[IMAGES] = Raw(_encode(choice.images))
    if choice.parts:
        opaque[PARTS] = Raw(_encode(choice.parts))
    searches, cited = grounding_of(opaque, "".join(choice.texts))
    opaque |= citations_field(cited) if cited else {}
    opaque |= searches_field(searches) if searches else {}
    if opaque:
        events.append(OpaqueDelta(fields=opaque, index=index))
    native = "" if word.lower() == reason else word
    events.append(Finished(reason=reason, index=index, native=native))


def _others(fields: Mapping[str, Raw], read: Collection[str]) -> dict[str, Raw]:
    """Return the members not in `read`, in snake_case like all fields of an answer."""
    return {
        _CAPITAL.sub(_lowered, name): raw.copy()
        for name, raw in fields.items()
        if name not in read and raw != NULL
    }


def _lowered(capital: re.Match[str]) -> str:
    return f"_{capital[0].lower()}"


def _rest(raw: Raw) -> dict[str, Raw]:
    """Return the members of a part that OpenAI's dialect does not have."""
    return {name: one for name, one in read_object(raw).items() if name not in PART and one != NULL}


def _seconds(moment: str) -> int:
    """Return Unix seconds of an RFC 3339 time, 0 if it is not one."""
    try:
        return int(datetime.fromisoformat(moment).timestamp())
    except (ValueError, OverflowError):
        return 0
