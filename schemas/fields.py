"""The names of request fields: the vocabulary of `Supports`, error messages and headers.

A name is one of a request's own fields (`tools`), of its sampling (`top_k`), or a kind of content
(`messages.image`). Fields that the gateway itself honours for every backend are not among
them: model, stream, include_usage, continuous_usage, batch, base64, details, timeout_s. `None`
counts as absent.
"""

from collections.abc import Collection
from operator import attrgetter
from typing import Literal, TypeVar

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType

from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    AudioPart,
    FunctionTool,
    ImagePart,
    OpaquePart,
    OpaqueTool,
    Part,
    ResponseFormat,
    ToolChoice,
)
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Prompt,
    Request,
    TokenRequest,
    WholeRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tasks.classify import ClassifyRequest
from strowger_gateway.schemas.tasks.moderate import ModerateRequest
from strowger_gateway.schemas.tasks.pool import PoolRequest
from strowger_gateway.schemas.tasks.rerank import RerankRequest
from strowger_gateway.schemas.tasks.score import ScoreRequest
from strowger_gateway.schemas.tasks.task import TaskRequest
from strowger_gateway.schemas.unknown_fields import is_nested, without_nested

Task = Literal[
    "chat", "completion", "embeddings", "tokens", "rerank", "score", "classify", "pool", "moderate"
]

SAMPLING: tuple[str, ...] = Sampling.__struct_fields__

CHAT: tuple[str, ...] = (
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "reasoning_effort",
    "user",
    "metadata",
    "priority",
)
COMPLETION: tuple[str, ...] = (
    "echo",
    "suffix",
    "append_suffix",
    "prompt_template",
    "error_behavior",
    "user",
    "priority",
)
"""`template`, a plain bool, is one as well."""

EMBEDDINGS: tuple[str, ...] = ("instruction", "dimensions", "user")
TOKENS: tuple[str, ...] = (
    "priority",
    "lora",
    "prompt_table",
    "draft",
    "return_context_logits",
    "return_generation_logits",
)

MESSAGES = frozenset(
    {"messages.image", "messages.remote_image", "messages.audio", "messages.opaque"}
)
"""An image is remote unless it is a `data:` URI: a backend may accept only one of the two kinds."""

REASONING = "messages.reasoning"
"""Reasoning that the client sends back: the parts that a backend does not read are omitted from its
request, and reported. They cause no rejection and no preference for a backend, because clients send
them to any backend that answers next."""

TASK_TYPES: tuple[type[TaskRequest], ...] = (
    RerankRequest,
    ScoreRequest,
    ClassifyRequest,
    PoolRequest,
    ModerateRequest,
)
"""Of requests with one whole answer that is not vectors."""

NOT_OMITTABLE = MESSAGES.union(
    {"prompt.tokens", "prompt.batch", "input.tokens", "thread"},
    *(kind.CONTENT for kind in TASK_TYPES),
)
"""Content, which cannot be omitted: the request would mean something else without it. `thread`
refers to messages that a vendor stores."""

TEXT = "answer.text"
"""`text` of a token request: it concerns the answer, and is not sent to any backend."""

FIELDS: dict[Task, frozenset[str]] = {
    "chat": frozenset({*SAMPLING, *CHAT, *MESSAGES, "tools.opaque"}),
    "completion": frozenset({*SAMPLING, *COMPLETION, "template", "prompt.tokens", "prompt.batch"}),
    "embeddings": frozenset({*EMBEDDINGS, "input.tokens"}),
    "tokens": frozenset({*SAMPLING, *TOKENS}),
    **{kind.task: kind.CONTENT.union(kind.FIELDS) for kind in TASK_TYPES},
}
"""Every name that `sent_fields` can return, by task."""

NEUTRAL: dict[str, object] = {
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "min_tokens": 0,
    "stop": (),
    "stop_token_ids": (),
    "stop_words": (),
    "bad_words": (),
    "bad_word_ids": (),
    "ignore_eos": False,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "logit_bias": {},
    "logprobs": False,
    "n": 1,
    "best_of": 1,
    "beam_width": 1,
    "watermark": False,
    "priority": 5,
    "tools": (),
    "parallel_tool_calls": True,
    "echo": False,
    "suffix": "",
    "append_suffix": "",
    "error_behavior": "error",
    "template": False,
    "return_context_logits": False,
    "return_generation_logits": False,
    "raw_scores": False,
}
"""Values without effect: a backend without the field gives the same answer."""

_KINDS: dict[type[Part], str] = {
    ImagePart: "messages.image",
    AudioPart: "messages.audio",
    OpaquePart: "messages.opaque",
}

STREAM_OPTIONS = "stream_options"
"""The one unknown top-level field that can be supported in part: backends differ in its members."""

_members: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_chat_values = attrgetter(*CHAT)
_completion_values = attrgetter(*COMPLETION)
_embeddings_values = attrgetter(*EMBEDDINGS)
_token_values = attrgetter(*TOKENS)

_AnyRequest = TypeVar("_AnyRequest", bound=Request)


def task_of(request: Request) -> Task:
    return request.task


def sent_fields(request: Request) -> frozenset[str]:
    """Return the names of the fields that the request sets; for unknown ones see `extra_fields`."""
    if isinstance(request, ChatRequest):
        sent = _own(CHAT, _chat_values(request))
        sent += _sampling(request.sampling)
        _add_content(request, sent)
    elif isinstance(request, CompletionRequest):
        sent = _own(COMPLETION, _completion_values(request))
        sent += _sampling(request.sampling)
        if _has_ids(request.prompts):
            sent.append("prompt.tokens")
        if len(request.prompts) > 1:
            sent.append("prompt.batch")
        if request.template:
            sent.append("template")
    elif isinstance(request, EmbeddingsRequest):
        sent = _own(EMBEDDINGS, _embeddings_values(request))
        if _has_ids(request.inputs):
            sent.append("input.tokens")
    elif isinstance(request, TaskRequest):
        sent = [*_own(request.FIELDS, request.values), *request.content]
    else:
        sent = _own(TOKENS, _token_values(request))
        sent += _sampling(request.sampling)
    return frozenset(sent)


def extra_fields(request: Request) -> frozenset[str]:
    """Return the names of top-level fields outside our schema; of `stream_options`, its members."""
    if STREAM_OPTIONS not in request.extra:
        return frozenset(request.extra)
    return frozenset(
        name
        for field, raw in request.extra.items()
        for name in (stream_members(raw) if field == STREAM_OPTIONS else (field,))
    )


def stream_members(raw: Raw) -> tuple[str, ...]:
    """Return the paths of the stream options that have an effect: `stream_options.NAME`.

    False and null have no effect. A value that is not an object is returned as `stream_options`.
    """
    try:
        members = _members.decode(raw)
    except (DecodeError, RecursionError):
        return (STREAM_OPTIONS,)
    return tuple(
        f"{STREAM_OPTIONS}.{name}"
        for name, value in members.items()
        if bytes(value) not in (b"false", b"null")
    )


def field_value(request: Request, field: str) -> object:
    """Return the value of a field that `sent_fields` returned; `UNSET` for a kind of content."""
    if isinstance(request, WholeRequest) or field not in SAMPLING:
        return getattr(request, field, UNSET)
    return getattr(request.sampling, field)


def is_neutral(request: Request, field: str) -> bool:
    """Return whether the field is set to a value without effect."""
    value = field_value(request, field)
    if isinstance(value, ResponseFormat):
        return value.type == "text"
    if isinstance(value, ToolChoice):
        return value.mode == "auto"
    return field in NEUTRAL and value == NEUTRAL[field]


def without(request: _AnyRequest, fields: Collection[str]) -> _AnyRequest:
    """Return the request without the named fields, known or extra.

    Raises InvalidRequest for content and whole tasks, which cannot be omitted, and for unknown
    names.
    """
    known = FIELDS[task_of(request)]
    if isinstance(request, TokenRequest):
        known |= {TEXT}
    inner = [one for one in fields if one not in known | request.extra.keys() and is_nested(one)]
    if inner:
        request = without_nested(request, inner)
        fields = [field for field in fields if field not in inner]
    for field in fields:
        if field in FIELDS:
            raise InvalidRequest(f"{field}: no backend of this model offers it", param="model")
        if field not in known and field not in request.extra:
            raise InvalidRequest(f"{field}: this kind of request has no such field", param=field)
        if field in NOT_OMITTABLE:
            raise InvalidRequest(
                f"{field}: this content cannot be omitted from a request; "
                "remove it, or use a model that reads it",
                param=field.partition(".")[0],
            )
    changes: dict[str, object] = {
        field: _absent(field)
        for field in fields
        if field in request.__struct_fields__ and field != "sampling"
    }
    if TEXT in fields:
        changes["text"] = False
    sampling = getattr(request, "sampling", None)
    dropped = {field: UNSET for field in fields if field in SAMPLING}
    if isinstance(sampling, Sampling) and dropped:
        changes["sampling"] = msgspec.structs.replace(sampling, **dropped)
    if isinstance(request, ChatRequest) and "tools.opaque" in fields and request.tools:
        functions = tuple(tool for tool in request.tools if isinstance(tool, FunctionTool))
        changes["tools"] = functions or UNSET
        if not functions:
            changes |= {"tool_choice": UNSET, "parallel_tool_calls": UNSET}
    if any(field in request.extra for field in fields):
        changes["extra"] = {k: v for k, v in request.extra.items() if k not in fields}
    return msgspec.structs.replace(request, **changes)


def _absent(field: str) -> object:
    return False if field == "template" else UNSET


def _own(fields: tuple[str, ...], values: tuple[object, ...]) -> list[str]:
    if values.count(UNSET) == len(values):
        return []
    return [
        field
        for field, value in zip(fields, values, strict=True)
        if value is not UNSET and value is not None
    ]


def _sampling(sampling: Sampling) -> list[str]:
    plain: dict[str, object] = msgspec.to_builtins(sampling, builtin_types=(bytes,))
    return [field for field, value in plain.items() if value is not None]


def _add_content(request: ChatRequest, sent: list[str]) -> None:
    for message in request.messages:
        if isinstance(message.content, tuple):
            sent += [_kind(part) for part in message.content if type(part) in _KINDS]
    tools = request.tools
    if not isinstance(tools, UnsetType) and any(isinstance(tool, OpaqueTool) for tool in tools):
        sent.append("tools.opaque")


def _kind(part: Part) -> str:
    if isinstance(part, ImagePart) and part.remote:
        return "messages.remote_image"
    return _KINDS[type(part)]


def _has_ids(prompts: tuple[Prompt, ...]) -> bool:
    return any(not isinstance(prompt, str) for prompt in prompts)
