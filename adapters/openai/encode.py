"""Requests as bodies of the OpenAI dialect.

A body is a plain dict of what was sent: fields that the client omitted, or that are `None`, are not
in it, and the client's own JSON (messages, tools, unknown fields) is forwarded verbatim.
https://github.com/openai/openai-openapi
"""

from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import assert_never, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.adapters.json_objects import read_object
from strowger_gateway.adapters.openai.vendor_profile import MaxTokensField, VendorProfile
from strowger_gateway.schemas.fields import STREAM_OPTIONS, Task, stream_members
from strowger_gateway.schemas.messages import (
    AudioPart,
    FunctionTool,
    ImagePart,
    Message,
    OpaquePart,
    OpaqueTool,
    Part,
    ResponseFormat,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    thinking_of,
)
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, EmbeddingsRequest
from strowger_gateway.schemas.sampling import Sampling

Body = dict[str, object]

SAMPLING: Mapping[str, str] = MappingProxyType(
    {
        "temperature": "temperature",
        "top_p": "top_p",
        "stop": "stop",
        "seed": "seed",
        "presence_penalty": "presence_penalty",
        "frequency_penalty": "frequency_penalty",
        "logit_bias": "logit_bias",
        "n": "n",
        "best_of": "best_of",
        "top_k": "top_k",
        "min_p": "min_p",
        "repetition_penalty": "repetition_penalty",
        "min_tokens": "min_tokens",
        "no_repeat_ngram_size": "no_repeat_ngram_size",
        "stop_token_ids": "stop_token_ids",
        "bad_words": "bad_words",
        "ignore_eos": "ignore_eos",
        "beam_width": "beam_width",
        "length_penalty": "length_penalty",
        "early_stopping": "early_stopping",
    }
)
"""Our names -> the wire's, for fields that chat and completions share."""

CHAT_SAMPLING: Mapping[str, str] = MappingProxyType(
    {**SAMPLING, "logprobs": "logprobs", "top_logprobs": "top_logprobs"}
)
COMPLETION_SAMPLING: Mapping[str, str] = MappingProxyType({**SAMPLING, "max_tokens": "max_tokens"})
CHAT_FIELDS = ("parallel_tool_calls", "reasoning_effort", "user", "metadata", "priority")
COMPLETION_FIELDS = ("echo", "suffix", "user", "priority")
EMBEDDINGS_FIELDS = ("dimensions", "user")

INCLUDE_USAGE: Mapping[str, object] = {"include_usage": True}

_TASKS: dict[Task, tuple[Mapping[str, str], tuple[str, ...]]] = {
    "chat": (CHAT_SAMPLING, CHAT_FIELDS),
    "completion": (COMPLETION_SAMPLING, COMPLETION_FIELDS),
    "embeddings": ({}, EMBEDDINGS_FIELDS),
}

encode_body: Callable[[Body], bytes] = msgspec.json.Encoder().encode
_options = msgspec.json.Decoder(dict[str, Raw])


class _Function(Struct, frozen=True, kw_only=True):
    name: str
    description: str | UnsetType = UNSET
    parameters: Raw | UnsetType = UNSET
    strict: bool | UnsetType = UNSET


class _Schema(Struct, frozen=True, kw_only=True):
    name: str
    description: str | UnsetType = UNSET
    schema: Raw | UnsetType = UNSET
    strict: bool | UnsetType = UNSET


class _Detail(Struct, frozen=True, kw_only=True):
    type: str
    text: str | UnsetType = UNSET
    signature: str | UnsetType = UNSET
    data: str | UnsetType = UNSET
    format: str | UnsetType = UNSET
    index: int


class BodyFields(Struct, frozen=True, kw_only=True):
    """The fields of one task's bodies, computed once per endpoint.

    sampling:     our names -> the wire's. own: the wire's names of the request's own fields;
                  own_values returns theirs; absent is what it returns if none was sent.
    max_tokens:   the limit's name if the client used neither; always with
                  `single_max_tokens_field`.
    counted_logprobs: a chat's `logprobs` is the number of likely tokens to return.
    stream_usage: request usage at the end of a stream.
    base64:       request base64 if the client did.
    """

    sampling: Mapping[str, str]
    own: tuple[str, ...]
    own_values: Callable[[object], tuple[object, ...]]
    absent: tuple[object, ...]
    max_tokens: MaxTokensField = "max_tokens"
    single_max_tokens_field: bool = False
    counted_logprobs: bool = False
    stream_usage: bool = True
    base64: bool = False


def body_fields(task: Task, vendor: VendorProfile, supported: Collection[str]) -> BodyFields:
    """Unsupported fields are never written, even if routing lets them pass."""
    sampling, own = _TASKS[task]
    names = {**sampling, **vendor.names}
    own = tuple(name for name in own if name in supported)
    return BodyFields(
        sampling={name: wire for name, wire in names.items() if name in supported},
        own=tuple(vendor.names.get(name, name) for name in own),
        own_values=_getter(own),
        absent=(UNSET,) * len(own),
        max_tokens=vendor.max_tokens,
        single_max_tokens_field=vendor.single_max_tokens_field,
        counted_logprobs=vendor.counted_logprobs,
        stream_usage=vendor.stream_usage,
        base64=vendor.base64,
    )


def chat_body(request: ChatRequest, model: str, allowed: BodyFields) -> Body:
    sampling = request.sampling
    body: Body = {
        "model": model,
        "messages": [one.raw if one.raw is not UNSET else message(one) for one in request.messages],
    }
    limit = sampling.max_tokens
    if limit is not UNSET and limit is not None:
        named = "" if allowed.single_max_tokens_field else request.max_tokens_field
        body[named or allowed.max_tokens] = limit
    _add_sampling(body, sampling, allowed)
    if allowed.counted_logprobs:
        _count_logprobs(body)
    if request.tools is not UNSET:
        body["tools"] = [tool(one) for one in request.tools]
    if request.tool_choice is not UNSET:
        body["tool_choice"] = tool_choice(request.tool_choice)
    if request.response_format is not UNSET:
        body["response_format"] = response_format(request.response_format)
    _add_own(body, request, allowed)
    _add_stream(body, request, allowed)
    if request.private:
        body.update(request.private)
    if request.written:
        body.update(request.written)
    return body


def mark_prefix(body: Body, mark: str = "prefix") -> None:
    """Mark a chat's last message as the beginning of the answer, as Mistral and DeepSeek do.

    mark: the name of the field; `partial` for Moonshot and Alibaba.
    """
    messages = cast("list[Raw | Body]", body["messages"])
    last = messages[-1]
    fields = {**read_object(last)} if isinstance(last, Raw) else last
    messages[-1] = {**fields, mark: True}


def completion_body(request: CompletionRequest, model: str, allowed: BodyFields) -> Body:
    """Encode a completion; its integer `logprobs` is our `top_logprobs`."""
    prompts = request.prompts
    body: Body = {"model": model, "prompt": prompts if request.batch else prompts[0]}
    sampling = request.sampling
    _add_sampling(body, sampling, allowed)
    if sampling.logprobs is True:
        body["logprobs"] = sampling.top_logprobs or 0
    _add_own(body, request, allowed)
    _add_stream(body, request, allowed)
    return body


def embeddings_body(request: EmbeddingsRequest, model: str, allowed: BodyFields) -> Body:
    """Request base64 only if it is known to be float32: old vLLM versions send float64."""
    inputs = request.inputs
    body: Body = {"model": model, "input": inputs if request.batch else inputs[0]}
    if request.base64 and allowed.base64:
        body["encoding_format"] = "base64"
    _add_own(body, request, allowed)
    body.update(request.extra)
    return body


def message(one: Message) -> Body:
    """Encode a message that the gateway made or changed."""
    body: Body = {"role": one.role, "content": one.content}
    if isinstance(one.content, tuple):
        body["content"] = [part(piece) for piece in one.content]
    if one.name:
        body["name"] = one.name
    if one.tool_calls:
        body["tool_calls"] = [_tool_call(call) for call in one.tool_calls]
    if one.tool_call_id is not UNSET:
        body["tool_call_id"] = one.tool_call_id
    if one.reasoning:
        body["reasoning_content"] = one.reasoning
    if one.signature:
        body["reasoning_signature"] = one.signature
    if one.thoughts:
        _add_thoughts(body, one)
    return body


def _add_thoughts(body: Body, one: Message) -> None:
    """Write reasoning block by block, if blocks have more than their text, as OpenRouter does."""
    text = thinking_of(one)
    if text and not one.reasoning:
        body["reasoning_content"] = text
    if any(thought.signature or thought.data for thought in one.thoughts):
        body["reasoning_details"] = [
            _Detail(
                type="reasoning.encrypted" if thought.data else "reasoning.text",
                text=UNSET if thought.data else thought.text,
                signature=thought.signature or UNSET,
                data=thought.data or UNSET,
                format=thought.format or UNSET,
                index=place,
            )
            for place, thought in enumerate(one.thoughts)
        ]


def _tool_call(call: ToolCall) -> Body:
    body: Body = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    if call.signature:
        body["extra_content"] = {"google": {"thought_signature": call.signature}}
    return body


def part(piece: Part) -> Raw | Body:
    if not isinstance(piece.raw, UnsetType):
        return piece.raw
    match piece:
        case TextPart():
            return {"type": "text", "text": piece.text}
        case ImagePart():
            url: Body = {"url": piece.url}
            if piece.detail is not UNSET:
                url["detail"] = piece.detail
            return {"type": "image_url", "image_url": url}
        case AudioPart():
            return {
                "type": "input_audio",
                "input_audio": {"data": piece.data, "format": piece.format},
            }
        case OpaquePart():
            return piece.raw
    assert_never(piece)


def tool(one: Tool) -> Raw | Body:
    if isinstance(one, OpaqueTool) or not isinstance(one.raw, UnsetType):
        return one.raw if isinstance(one.raw, Raw) else {}
    return {"type": "function", "function": _function(one)}


def tool_choice(choice: ToolChoice) -> Raw | Body | str:
    if not isinstance(choice.raw, UnsetType):
        return choice.raw
    if choice.mode == "named":
        return {"type": "function", "function": {"name": choice.name}}
    return choice.mode


def response_format(form: ResponseFormat) -> Raw | Body:
    if not isinstance(form.raw, UnsetType):
        return form.raw
    if form.type != "json_schema":
        return {"type": form.type}
    return {
        "type": "json_schema",
        "json_schema": _Schema(
            name=form.name or "answer",
            description=form.description,
            schema=form.schema,
            strict=UNSET if form.strict is None else form.strict,
        ),
    }


def _function(one: FunctionTool) -> _Function:
    return _Function(
        name=one.name,
        description=one.description,
        parameters=one.parameters,
        strict=UNSET if one.strict is None else one.strict,
    )


def _add_sampling(body: Body, sampling: Sampling, allowed: BodyFields) -> None:
    names = allowed.sampling
    plain: dict[str, object] = msgspec.to_builtins(sampling, builtin_types=(bytes,))
    for field, value in plain.items():
        name = names.get(field)
        if name is not None and value is not None:
            body[name] = value


def _count_logprobs(body: Body) -> None:
    """The most likely token is the token itself, so its probability needs a count of 1."""
    most = body.pop("top_logprobs", None)
    if body.pop("logprobs", False):
        body["logprobs"] = max(most, 1) if isinstance(most, int) else 1


def _add_own(
    body: Body,
    request: ChatRequest | CompletionRequest | EmbeddingsRequest,
    allowed: BodyFields,
) -> None:
    values = allowed.own_values(request)
    if values != allowed.absent:
        for field, value in zip(allowed.own, values, strict=True):
            if value is not UNSET:
                body[field] = value


def _getter(names: tuple[str, ...]) -> Callable[[object], tuple[object, ...]]:
    """Return what reads these attributes of an object, as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)  # which returns no tuple for a single name
    return lambda request: tuple([getattr(request, name) for name in names])


def _add_stream(body: Body, request: ChatRequest | CompletionRequest, allowed: BodyFields) -> None:
    """Always request usage; the surface hides it from a client that did not request it."""
    extra, own = request.extra, None
    if extra:
        body.update(extra)
        own = extra.get(STREAM_OPTIONS)
        if own is not None and not stream_members(own):
            del body[STREAM_OPTIONS]  # without effect, and the vendor may not know it
    if not request.stream:
        return
    body["stream"] = True
    if allowed.stream_usage:
        body[STREAM_OPTIONS] = (
            INCLUDE_USAGE if own is None else {**_options.decode(own), **INCLUDE_USAGE}
        )
